"""Shows the rows as a table, and what they say in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from farwrite_experiments.convergence.rows import Row
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train.plan import EMULATED

HEADERS = (
    "task",
    "computation",
    "transport",
    "fabric",
    "to",
    "reached",
    "steps",
    "step ms",
    "seconds",
    "spread",
    "of grpc",
    "spread",
    "copies",
    "requests",
    "cpu s",
)


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Format the rows as the cells below `HEADERS`."""
    for row in rows:
        ratio = row["of_grpc"]
        yield (
            row["task"],
            row["compute"],
            row["transport"],
            row["fabric"],
            goal(row),
            f"{row['reached']} of {len(row['runs'])}",
            _middle(row["steps_to_quality"], "{:.0f}"),
            f"{row['step_ms']:.1f}",
            _middle(row["seconds_to_quality"], "{:.2f}"),
            _ends(row["seconds_to_quality"], "{:.2f}"),
            _middle(ratio, "{:.2f}", "median"),
            _ends(ratio, "{:.2f}"),
            _known(row["copies_per_step"]),
            _known(row["requests_per_step"]),
            _known(row["cpu_s_per_step"]),
        )


def goal(row: Row) -> str:
    """Return the quality to reach, such as "accuracy 0.95"."""
    return f"{row['measure']} {row['target']:g}"


def sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Say what each task read, and how much less time Farwrite needs than stock gRPC."""
    for task in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == task]
        data = of_task[0]["data"]
        synthetic = ", synthetic" if data["synthetic"] and "synthetic" not in data["name"] else ""
        yield f"{TASKS[task].name}: data: {data['name']}{synthetic}."
        for row in of_task:
            if row["of_grpc"] is not None and not row["transport"].startswith("rpc"):
                kind = "emulated GPU-class" if row["compute"] == EMULATED else "real"
                yield (
                    f"{TASKS[task].name}, {kind} computation, {row['transport']} over"
                    f" {row['fabric']}: {row['of_grpc']['median']:.2f} of stock gRPC's time to"
                    f" {goal(row)}."
                )


def _middle(spread: dict[str, Any] | None, form: str, key: str = "mean") -> str:
    return "-" if spread is None else form.format(spread[key])


def _ends(spread: dict[str, Any] | None, form: str) -> str:
    if spread is None:
        return "-"
    return f"{form} to {form}".format(spread["low"], spread["high"])


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
