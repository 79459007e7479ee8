"""What every benchmark's file holds, for the small results of tests."""

from __future__ import annotations

from typing import Any

KIB, MIB = 2**10, 2**20
Facts = dict[str, Any]


def facts(benchmark: str, **measured: Any) -> Facts:
    """Return what every file holds, and `measured`."""
    return {
        "benchmark": benchmark,
        "quick": False,
        "date": "2026-01-02T03:04:05+00:00",
        "machine": {
            "farwrite": "0.1.0",
            "cpu": "A <processor> & more",
            "cpus": 2,
            "arch": "x86_64",
            "memory_bytes": 16 << 30,
            "kernel": "6.1.0",
            "python": "3.11.2",
            "shm_huge_pages": "advise",
            "copy_kernel": "avx2",
            "governor": "unknown",
        },
        "load": [0.12, 0.3, 0.4],
        "notes": ["a note with <angles>"],
        **measured,
    }


def ratio_of(value: float) -> dict[str, float]:
    """Return a ratio with its interval."""
    return {"median": value, "low": value * 0.9, "high": value * 1.1}


def times_less(value: float | None) -> dict[str, float | None] | None:
    """Return what rows hold of a ratio of communication time."""
    return None if value is None else {**ratio_of(value), "at_least": None}
