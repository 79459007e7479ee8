"""How busy the processors of this machine are, with the kernel's own work."""

from __future__ import annotations

import os
from pathlib import Path

_IDLE = (3, 4)
"""The columns of /proc/stat without work: idle, and waiting for a disk."""
_COUNTED = 8
"""The columns that add up: a guest's time is part of the user's."""


def busy_seconds() -> float:
    """Return for how long the processors have worked since the machine began, all added up.

    Unlike the time of processes, it has the kernel's own threads and interrupts, which carry
    packets between network namespaces.
    """
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    ticks = [int(word) for word in words[:_COUNTED]]
    idle = sum(ticks[column] for column in _IDLE)
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")
