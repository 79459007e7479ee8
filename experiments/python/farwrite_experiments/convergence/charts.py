"""The charts of convergence: loss or perplexity over time, and the time to the quality."""

from __future__ import annotations

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
    cases: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(facts):
        cases.setdefault((row["task"], row["compute"]), []).append(row)
    groups = [
        Group(
            f"{TASKS[task].name.capitalize()}, {COMPUTATION[compute]}",
            [_bar(row, rows) for row in rows if row["seconds_to_quality"] is not None],
        )
        for (task, compute), rows in cases.items()
    ]
    shown = [group for group in groups if group.bars]
    note = "Mean of the runs; the thin line is their spread. Shorter is better."
    drawn = [_curves(rows) for rows in cases.values()]
    return [*drawn, *([bars("Time to the stated quality", shown, note)] if shown else [])]


def _curves(rows: list[Row]) -> str:
    first = rows[0]
    # Accuracy has no curve in the paper: it shows the loss for all tasks but Seq2Seq.
    shown, name = (
        ("loss", "loss") if first["measure"] == "accuracy" else ("quality", first["measure"])
    )
    synthetic = ", synthetic data" if first["data"]["synthetic"] else ""
    task, compute = TASKS[first["task"]].name.capitalize(), COMPUTATION[first["compute"]]
    title = f"{task} to {goal(first)}, {compute}{synthetic}"
    look = Look(title, "seconds", name, log_y=shown == "quality")
    series = []
    for row in rows:
        stride = -(-len(row["curve"]) // MOST_POINTS)
        # The last point is always drawn, because the quality is reached there.
        chosen = row["curve"][::-1][::stride][::-1]
        points = [(point["seconds"], point[shown]) for point in chosen]
        series.append(Series(row["transport"], _way(row, rows), points))
    return lines(look, series)


def _bar(row: Row, rows: list[Row]) -> Bar:
    taken = row["seconds_to_quality"]
    text = f"{figure(taken['mean'])} s"
    ends = taken["low"], taken["high"]
    return Bar(row["transport"], _way(row, rows), taken["mean"], text, ends)


def _way(row: Row, rows: list[Row]) -> str:
    of_transport = {each["fabric"] for each in rows if each["transport"] == row["transport"]}
    name = NAMES[row["transport"]]
    return f"{name}, {row['fabric']}" if len(of_transport) > 1 else name


def goal(row: Row) -> str:
    """Return the quality to reach, such as "accuracy 0.95"."""
    return f"{row['measure']} {row['target']:g}"
