"""Where a benchmark ran, and whether anybody else was running there."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from farwrite.info import copy_kernels, limits, version

BUSY_LOAD = 0.5


def machine() -> dict[str, Any]:
    """Describe the machine and the build: what a figure depends on."""
    facts = limits()
    chosen = [kernel["name"] for kernel in copy_kernels() if kernel["chosen"]]
    return {
        "farwrite": version(),
        "cpu": facts["cpu"],
        "cpus": facts["cpus"],
        "arch": platform.machine(),
        "memory_bytes": facts["memory"],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "shm_huge_pages": facts["shm_huge_pages"],
        "copy_kernel": chosen[0] if chosen else "memcpy",
        "governor": _governor(),
    }


def load() -> list[float]:
    """Return the load averages of 1, 5 and 15 minutes. Take them before measuring."""
    return [round(value, 2) for value in os.getloadavg()]


def busy_note(averages: list[float]) -> str | None:
    """Warn that the machine was not idle."""
    if averages[0] <= BUSY_LOAD:
        return None
    return (
        f"the machine was not idle before this run (load {averages[0]}); figures are lower than"
        " they could be, and ratios less certain"
    )


def _governor() -> str:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"
