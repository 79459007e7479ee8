"""Shows the rows as a table, and what they say in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite_experiments.networks.network import NETWORKS
from farwrite_experiments.scaling.rows import Row

HEADERS = (
    "model",
    "machines",
    "link",
    "transport",
    "step ms",
    "samples/s",
    "x local",
    "x grpc",
    "cores busy",
    "predicted ms",
    "error",
    "bottleneck",
)
WITHIN = 0.2
"""How far a prediction may be from the step, as a share of it."""


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Format the rows as the cells below `HEADERS`."""
    for row in rows:
        yield (
            row["model"],
            str(row["workers"]),
            row["link"] or "loopback",
            f"{row['transport']} {row['fabric']}",
            f"{row['step_ms']:.0f}",
            f"{row['samples_s']:.1f}",
            f"{row['of_local']:.2f}",
            "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
            f"{100 * row['cores_busy']:.0f} %" + ("" if row["counts"] else ", does not count"),
            f"{row['predicted_ms']:.0f}",
            f"{100 * row['prediction_error']:+.0f} %",
            row["bottleneck"],
        )


def sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Score the predictions, and say which rows do not count."""
    if not rows:
        return
    near = sum(abs(row["prediction_error"]) <= WITHIN for row in rows)
    worst = max(rows, key=lambda row: abs(row["prediction_error"]))
    yield (
        f"The model is within {100 * WITHIN:.0f} % at {near} of {len(rows)} points, of which it has"
        f" seen none; the worst is {NETWORKS[worst['model']].name} on {worst['workers']} machines"
        f" over {worst['transport']}, {100 * worst['prediction_error']:+.0f} %."
    )
    busy = [row for row in rows if not row["counts"]]
    if busy:
        yield (
            f"{len(busy)} of {len(rows)} rows do not count: the processors of this machine, which"
            " all machines of the run share, were busy, so that the row shows them and no network."
        )
