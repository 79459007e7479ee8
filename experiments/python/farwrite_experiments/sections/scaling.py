"""More machines: throughput beside a purely local run, and the capacity model's predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure, largest, rows_of
from farwrite_experiments.sections.networks import name_of
from farwrite_experiments.sections.train import NAMES

TITLE = "Scaling: more machines, with shaped links"
LEAD = (
    "Each machine is a parameter server and a worker. Throughput is shown beside a purely local"
    " run: at 4, four machines train four times as fast as one process. Rows in which this"
    " machine's own processors were busy show them, and no network; the table marks them."
)
HEADERS = (
    *("network", "machines", "link", "transport", "fabric", "batch", "step ms", "x local"),
    *("x grpc", "cores busy", "counts", "predicted ms", "error", "bottleneck", "rounds", "load"),
)


def figures(facts: Facts) -> list[str]:
    """Draw a chart for each network and link, and the errors of the model."""
    drawn = []
    for name, rows in _groups(rows_of(facts)):
        counts = sorted({row["workers"] for row in rows})
        if len(counts) > 1:
            look = Look(name, "machines", "x a local run", ticks_x=counts)
            drawn.append(lines(look, [_series(key, rows) for key in _keys(rows)]))
    return [*drawn, *_errors(rows_of(facts))]


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    cases = dict.fromkeys((row["model"], row["link"]) for row in rows)
    for model, link in cases:
        found = [row for row in rows if (row["model"], row["link"]) == (model, link)]
        yield f"{name_of(model)}, {link or 'loopback'}, batch {found[0]['batch']}", found


def _keys(rows: Sequence[Row]) -> list[str]:
    return [key for key in NAMES if any(row["transport"] == key for row in rows)]


def _series(key: str, rows: Sequence[Row]) -> Series:
    of_it = [row for row in rows if row["transport"] == key]
    return Series(key, NAMES[key], sorted((row["workers"], row["of_local"]) for row in of_it))


def _errors(rows: Sequence[Row]) -> list[str]:
    groups = []
    for name, of_it in _groups(rows):
        found = [
            Bar(
                row["transport"],
                f"{row['workers']} machines, {NAMES[row['transport']]}",
                row["predicted_ms"] / row["step_ms"],
                f"{100 * row['prediction_error']:+.0f} %",
            )
            for row in of_it
        ]
        groups.append(Group(name, found))
    note = "Dashed: as long as it took. The model has seen none of these points."
    return [bars("Predicted step, as a part of the measured one", groups, note, 1.0)]


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("Scaling", HEADERS, [_cells(row) for row in facts["rows"]])]


def _cells(row: Row) -> list[str]:
    return [
        name_of(row["model"]),
        str(row["workers"]),
        row["link"] or "loopback",
        *(str(row[name]) for name in ("transport", "fabric", "batch")),
        figure(row["step_ms"], 4),
        f"{row['of_local']:.2f}",
        "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
        f"{100 * row['cores_busy']:.0f} %",
        "yes" if row["counts"] else "no",
        figure(row["predicted_ms"], 4),
        f"{100 * row['prediction_error']:+.0f} %",
        str(row["bottleneck"]),
        str(row["rounds"]),
        str(row["load"]),
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain beside stock gRPC."""
    return largest(gains(facts), "throughput of stock gRPC")


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite that counts with stock gRPC's."""
    return [
        Gain(
            f"{row['workers']} machines, {name_of(row['model'])}, {row['link'] or 'loopback'}",
            float(row["speedup"]),
            "stock gRPC",
            f"limited by {row['bottleneck']}, as the model says",
        )
        for row in rows_of(facts)
        if row["transport"] == "farwrite" and row["speedup"] is not None and row["counts"]
    ]
