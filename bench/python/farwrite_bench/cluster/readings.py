"""Readings of one process: sockets, memory, processor time, and Farwrite's counters."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.sockets import socket_bytes


@dataclass(frozen=True)
class Readings:
    """The readings of a process at one time, in bytes and seconds."""

    task: str
    socket_sent: int
    socket_received: int
    cpu_seconds: float
    peak_rss: int
    """VmHWM, which counts pages shared with other processes in full."""
    pss: int
    """Memory now, with each shared page divided among its processes; 0 if not requested."""
    counters: dict[str, int] | None
    """The numbers of `farwrite.tensorflow.stats()` and of `COUNTED`: a number that several have is
    their sum. None in a process without any."""
    fabrics: tuple[str, ...]
    """The fabrics over which Farwrite reaches the other tasks."""
    registered: int = 0
    """Bytes of registered memory in use; 0 without the plug-in."""
    registered_peak: int = 0
    """The highest value of `registered` so far."""


COUNTED: list[Callable[[], dict[str, Any] | None]] = []
"""What other transports that this process has loaded count: numbers, and the ``fabrics`` in use;
None if nothing runs that counts."""


def read(task: str, memory: bool = False) -> Readings:
    """Take the readings of this process.

    Parameters
    ----------
    task : str
        Name of the task.
    memory : bool
        Also read `pss`. The kernel visits all pages for it, which takes milliseconds.
    """
    sockets = socket_bytes()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    counters, arena, fabrics = _plugin()
    for other in filter(None, (count() for count in COUNTED)):
        numbers = {name: value for name, value in other.items() if isinstance(value, int)}
        counters = {**numbers, **{n: v + numbers.get(n, 0) for n, v in (counters or {}).items()}}
        fabrics = (*fabrics, *other["fabrics"])
    return Readings(
        task=task,
        socket_sent=sockets.sent,
        socket_received=sockets.received,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_rss=_kilobytes("/proc/self/status", "VmHWM:"),
        pss=_kilobytes("/proc/self/smaps_rollup", "Pss:") if memory else 0,
        counters=counters,
        registered=arena.get("used", 0),
        registered_peak=arena.get("peak_used", 0),
        fabrics=tuple(sorted(set(fabrics))),
    )


def _plugin() -> tuple[dict[str, int] | None, dict[str, int], tuple[str, ...]]:
    plugin: Any = sys.modules.get("farwrite.tensorflow")
    if plugin is None:
        return None, {}, ()
    stats: dict[str, Any] = dict(plugin.stats())
    counters = {name: value for name, value in stats.items() if isinstance(value, int)}
    counters["registrations"] = int(stats["arena"]["segments"])
    links = stats.get("links", [])
    arena: dict[str, int] = stats.get("arena", {})
    return counters, arena, tuple(sorted({str(link.get("fabric", "")) for link in links} - {""}))


def _kilobytes(path: str, name: str) -> int:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def control_calls(total: Mapping[str, float], steps: int) -> dict[str, float]:
    """Return the control calls of a step by the way that they went, from counters of `steps` steps.

    Only a process with the plug-in and its option FARWRITE_TF_CONTROL counts its calls.
    """
    return {
        "farwrite": round(total.get("control_calls", 0) / steps, 3),
        "grpc": round(total.get("grpc_control_calls", 0) / steps, 3),
    }


def write_control(calls: Mapping[str, float]) -> str:
    """Format the control calls of a step: over Farwrite + over gRPC."""
    return f"{calls['farwrite']:.3g} + {calls['grpc']:.3g}"


def spent(before: list[Readings], after: list[Readings]) -> dict[str, float]:
    """Add up the differences between two readings over all processes.

    Returns
    -------
    dict
        ``socket_bytes`` (each byte once), ``cpu_seconds``, and Farwrite's counters by name.
    """
    total: dict[str, float] = {"socket_bytes": 0, "cpu_seconds": 0.0}
    for first, last in zip(before, after, strict=True):
        total["socket_bytes"] += last.socket_sent - first.socket_sent
        total["cpu_seconds"] += last.cpu_seconds - first.cpu_seconds
        for name, value in (last.counters or {}).items():
            gained = value - (first.counters or {}).get(name, 0)
            total[name] = total.get(name, 0) + gained
    return total
