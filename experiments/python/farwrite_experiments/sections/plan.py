"""The capacity model: the step by the number of workers, and the papers' clusters."""

from __future__ import annotations

from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table
from farwrite_experiments.capacity.tables import HEADERS, PUBLISHED_HEADERS, cells, published_cells

TITLE = "The capacity model: what limits a training job"
LEAD = (
    "Nothing here was measured: a simulation predicts the step from the costs of this machine's"
    " bytes, messages and steps. The section on scaling compares it with what was measured."
)
COLOURS = {
    "grpc": "grpc",
    "farwrite tcp": "farwrite-tcp",
    "farwrite shm": "farwrite-shm",
    "farwrite rdma": "farwrite-verbs",
}
"""The keys of a chart's colours, by transport."""


def figures(facts: Facts) -> list[str]:
    """Draw the efficiency by the number of workers."""
    rows: list[Row] = facts.get("rows", [])
    counts = sorted({row["workers"] for row in rows})
    if len(counts) < 2:
        return []
    title = (
        f"{rows[0]['workload']}, {rows[0]['link']}: the share of a step that is no communication"
    )
    look = Look(title, "workers", "share", log_x=True, ticks_x=counts)
    return [
        lines(
            look,
            [
                Series(
                    COLOURS[key],
                    key,
                    [
                        (row["workers"], row["efficiency"])
                        for row in rows
                        if row["transport"] == key
                    ],
                )
                for key in COLOURS
                if any(row["transport"] == key for row in rows)
            ],
        )
    ]


def tables(facts: Facts) -> list[Table]:
    """Show all predictions."""
    found: list[Table] = []
    if "rows" in facts:
        found.append(("Predicted steps", HEADERS, list(cells(facts["rows"]))))
    if "published" in facts:
        shown = list(published_cells(facts["published"]))
        found.append(("The papers' clusters", PUBLISHED_HEADERS, shown))
    return found


def cards(_facts: Facts) -> list[Card]:
    """Choose nothing: a prediction is no key figure."""
    return []


def gains(_facts: Facts) -> list[Gain]:
    """Return nothing: a prediction is no gain."""
    return []
