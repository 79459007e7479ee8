"""The rows of the result. Every row has the same fields; those that do not apply are None."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from farwrite_bench.report.parts import Row

FIELDS = (
    "test",
    "transport",
    "model",
    "workers",
    "bytes",
    "comm_ms",
    "compute_ms",
    "gb_s",
    "limit_gb_s",
    "ratio",
    "p50_us",
    "limit_us",
    "target",
    "target_met",
    "skipped",
    "error",
)


def row(test: str, transport: str, **figures: Any) -> Row:
    """Make a row: the shared fields first, then those that only this test has."""
    made: Row = dict.fromkeys(FIELDS)
    made.update(test=test, transport=transport)
    made.update(figures)
    return made


def compared(
    figures: Sequence[float], others: Sequence[float], target: float | None, *, most: bool = False
) -> Row:
    """Divide round by round, and compare the median with a target, which is the `most` or least."""
    ratios = [mine / other for mine, other in zip(figures, others, strict=True)]
    ratio = statistics.median(ratios)
    met = None if target is None else ratio <= target if most else ratio >= target
    return {
        "ratio": round(ratio, 3),
        "ratio_spread": [round(min(ratios), 3), round(max(ratios), 3)],
        "target": None if target is None else f"{'<=' if most else '>='}{target:g}",
        "target_met": met,
    }


def rated(rates: Mapping[str, Sequence[float]], target: float | None) -> Row:
    """Compare the bytes per second of a transport, the first, with those of its limit."""
    ours, limit = rates.values()
    return {
        "gb_s": round(statistics.median(ours) / 1e9, 3),
        "limit_gb_s": round(statistics.median(limit) / 1e9, 3),
        **compared(ours, limit, target),
    }
