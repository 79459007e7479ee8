"""The charts of convergence: loss or perplexity over time, and the time to the quality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Facts, Row, figure, rows_of
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.charts import NAMES
from farwrite_experiments.train.plan import EMULATED

COMPUTATION = {"real": "real computation", EMULATED: "emulated GPU-class computation"}
MOST_POINTS = 40
"""Points of a curve that are drawn."""


def figures(facts: Facts) -> list[str]:
    """Draw the curves of each task and computation, and the time to the quality."""
    rows = rows_of(facts)
    return [*(_curves(of_it) for of_it in _cases(rows)), *_times(rows)]


def _cases(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows of each task and computation."""
    for case in dict.fromkeys((row["task"], row["compute"]) for row in rows):
        yield [row for row in rows if (row["task"], row["compute"]) == case]


def _curves(rows: Sequence[Row]) -> str:
    first = rows[0]
    # Accuracy has no curve in the paper: it shows the loss for all tasks but Seq2Seq.
    shown, name = (
        ("loss", "loss") if first["measure"] == "accuracy" else ("quality", first["measure"])
    )
    synthetic = ", synthetic data" if first["data"]["synthetic"] else ""
    look = Look(
        f"{_name(first)} to {goal(first)}, {COMPUTATION[first['compute']]}{synthetic}",
        "seconds",
        name,
        log_y=shown == "quality",
    )
    return lines(look, [_series(row, shown, rows) for row in rows])


def _series(row: Row, shown: str, rows: Sequence[Row]) -> Series:
    curve = row["curve"]
    stride = -(-len(curve) // MOST_POINTS)
    # The last point is always drawn, because the quality is reached there.
    chosen = [point for place, point in enumerate(reversed(curve)) if place % stride == 0]
    points = [(point["seconds"], point[shown]) for point in reversed(chosen)]
    return Series(row["transport"], _way(row, rows), points)


def _way(row: Row, rows: Sequence[Row]) -> str:
    of_transport = {each["fabric"] for each in rows if each["transport"] == row["transport"]}
    name = NAMES[row["transport"]]
    return f"{name}, {row['fabric']}" if len(of_transport) > 1 else name


def _times(rows: Sequence[Row]) -> list[str]:
    groups = []
    for of_it in _cases(rows):
        found = [
            Bar(
                row["transport"],
                _way(row, of_it),
                row["seconds_to_quality"]["mean"],
                f"{figure(row['seconds_to_quality']['mean'])} s",
                (row["seconds_to_quality"]["low"], row["seconds_to_quality"]["high"]),
            )
            for row in of_it
            if row["seconds_to_quality"] is not None
        ]
        if found:
            groups.append(Group(f"{_name(of_it[0])}, {COMPUTATION[of_it[0]['compute']]}", found))
    note = "Mean of the runs; the thin line is their spread. Shorter is better."
    return [bars("Time to the stated quality", groups, note)] if groups else []


def _name(row: Row) -> str:
    return TASKS[row["task"]].name.capitalize()


def goal(row: Row) -> str:
    """Return the quality to reach, such as "accuracy 0.95"."""
    return f"{row['measure']} {row['target']:g}"
