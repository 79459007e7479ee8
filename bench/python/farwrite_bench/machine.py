"""Describes the machine that a benchmark runs on, and its load before the run."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from farwrite.info import copy_kernels, limits, version

BUSY_LOAD = 0.5


def machine() -> dict[str, Any]:
    """Describe the machine and the build, on which all figures depend."""
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
    """Return a warning if the machine was not idle, else None."""
    if averages[0] <= BUSY_LOAD:
        return None
    return (
        f"the machine was not idle before this run (load {averages[0]}): the rates are lower than"
        " on an idle machine, and the ratios are less certain"
    )


def _governor() -> str:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        return path.read_text().strip()
    except OSError:
        return "unknown"
