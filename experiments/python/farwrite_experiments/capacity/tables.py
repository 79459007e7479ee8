"""Shows predictions as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HEADERS = (
    "transport",
    "workers",
    "servers",
    "step ms",
    "exposed ms",
    "samples/s",
    "efficiency",
    "bottleneck",
    "used",
)
PUBLISHED_HEADERS = ("what", "published", "predicted", "error", "conditions")


def cells(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Format predictions as the cells below `HEADERS`."""
    for row in rows:
        yield (
            row["transport"],
            str(row["workers"]),
            str(row["servers"]),
            f"{row['step_ms']:.1f}",
            f"{row['exposed_ms']:.1f}",
            f"{row['samples_s']:.1f}",
            f"{100 * row['efficiency']:.0f} %",
            row["bottleneck"],
            f"{100 * row['share']:.0f} %",
        )


def published_cells(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Format published figures as the cells below `PUBLISHED_HEADERS`."""
    for row in rows:
        if "missing" in row:
            yield row["what"], row["published"], "-", "-", f"not known: {row['missing']}"
            continue
        low, high = row["predicted"]
        unit = row["unit"]
        within = f"{low:.3g}{unit}" if low == high else f"{low:.3g} to {high:.3g}{unit}"
        error = f"{100 * row['prediction_error']:+.0f} %"
        where = f"{row['cluster']}; {row['assumption']}"
        yield row["what"], f"{row['published']:g}{unit}", within, error, where
