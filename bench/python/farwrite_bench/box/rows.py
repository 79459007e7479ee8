"""The rows of the result. Every row has the same fields; those that do not apply are None."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

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
    "target",
    "target_met",
    "skipped",
)


def row(test: str, transport: str, **figures: Any) -> Row:
    """Make a row: the shared fields first, then those that only this test has."""
    made: Row = dict.fromkeys(FIELDS)
    made.update(test=test, transport=transport)
    made.update(figures)
    return made
