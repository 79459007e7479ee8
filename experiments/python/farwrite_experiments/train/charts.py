"""The charts of training: throughput by batch size, gains, and what one copy costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Facts, figure, rows_of, varying
from farwrite_bench.table import times
from farwrite_experiments.networks.network import NETWORKS, name_of
from farwrite_experiments.train.plan import TRANSPORTS
from farwrite_experiments.train.rows import Row, gain, least, ratio_text

GRPC, RPC, STAGED, FARWRITE, LOCAL = TRANSPORTS
NAMES = {
    GRPC: "stock gRPC",
    RPC: "RPC over fabric",
    STAGED: "one copy",
    FARWRITE: "Farwrite",
    LOCAL: "one process",
}
QUALIFIERS = ("mode", "compute", "servers", "workers", "sync")
"""Columns that tell the runs of one network apart."""
OF_RIVAL = {GRPC: "of_grpc", RPC: "of_rpc"}
"""The key of how many times less communication Farwrite exposes than a rival."""
BATCH, COPY_BATCH = 32, 8
"""The batches of the bars, or the nearest that were measured: those of the paper."""


def measured(facts: Facts) -> list[Row]:
    """Return the rows with a throughput."""
    rows = [row for row in rows_of(facts) if row["samples_s"] is not None]
    return [row for row in rows if not row.get("repeated")]


def figures(facts: Facts) -> list[str]:
    """Draw the gains of each fabric, then a chart for each network, and the cost of a copy."""
    of_fabric = list(by_fabric(measured(facts)))
    networks = [
        (name + suffix, of_it) for suffix, rows in of_fabric for name, of_it in by_network(rows)
    ]
    return [
        *(chart for suffix, rows in of_fabric for chart in _gains(suffix, rows)),
        *(_throughput(name, of_it) for name, of_it in networks),
        *(chart for suffix, rows in of_fabric for chart in _copies(suffix, rows)),
    ]


def by_fabric(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each fabric, with stock gRPC's, and the end of their charts' titles."""
    shared = (GRPC, LOCAL)
    fabrics = list(dict.fromkeys(row["fabric"] for row in rows if row["transport"] not in shared))
    for fabric in fabrics or [None]:
        of_it = [row for row in rows if row["transport"] in shared or row["fabric"] == fabric]
        yield f", over {fabric}" if len(fabrics) > 1 else "", of_it


def by_network(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each network, and of each way to run it, with its name."""
    columns = varying(rows, QUALIFIERS)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model"], *(str(row.get(c)) for c in columns)), []).append(row)
    known = [*NETWORKS]
    for key in sorted(groups, key=lambda key: known.index(key[0]) if key[0] in known else 99):
        qualifiers = [_qualifier(*each) for each in zip(columns, key[1:], strict=True)]
        yield ", ".join([name_of(key[0]), *qualifiers]), groups[key]


def _qualifier(column: str, value: str) -> str:
    if column == "sync":
        return "synchronous" if value == "True" else "asynchronous"
    return value if column in ("mode", "compute") else f"{value} {column}"


def _throughput(name: str, rows: Sequence[Row]) -> str:
    batches = sorted({row["batch"] for row in rows})
    of_way = {
        key: sorted((row["batch"], row["samples_s"]) for row in rows if row["transport"] == key)
        for key in NAMES
    }
    if len(batches) == 1:
        found = [
            Bar(key, NAMES[key], value, figure(value))
            for key, points in of_way.items()
            for _, value in points
        ]
        return bars(name, [Group(f"samples/s, batch {batches[0]}", found)])
    look = Look(name, "batch of a worker", "samples/s", log_x=True, ticks_x=batches)
    return lines(
        look, [Series(key, NAMES[key], points) for key, points in of_way.items() if points]
    )


def of_batch(rows: Sequence[Row], batch: int) -> list[Row]:
    """Return the rows of the batch that is nearest to `batch`."""
    nearest = min((row["batch"] for row in rows), key=lambda each: abs(each - batch))
    return [row for row in rows if row["batch"] == nearest]


def _gains(suffix: str, rows: Sequence[Row]) -> list[str]:
    """Draw how many times less Farwrite exposes, and how many times more it trains."""
    exposed, throughput = [], []
    for name, of_it in by_network(rows):
        found = of_batch(of_it, BATCH)
        rivals = [row for row in found if row["transport"] in OF_RIVAL]
        for ours in (row for row in found if row["transport"] == FARWRITE):
            case = f"{name}, batch {ours['batch']}"
            less = [(row, ours[OF_RIVAL[row["transport"]]]) for row in rivals]
            more = [(row, gain(ours, row)) for row in rivals]
            exposed += [Group(case, [_than(row, least(r), ratio_text(r)) for row, r in less if r])]
            throughput += [Group(case, [_than(row, r, times(r)) for row, r in more if r])]
    note = "Dashed: as fast as Farwrite. Longer is better."
    return [
        bars(title + suffix, shown, note, 1.0)
        for title, groups in (
            ("Exposed communication: how many times less with Farwrite", exposed),
            ("Throughput: how many times more with Farwrite", throughput),
        )
        if (shown := [group for group in groups if group.bars])
    ]


def _than(row: Row, ratio: float, text: str) -> Bar:
    return Bar(row["transport"], f"than {NAMES[row['transport']]}", ratio, text)


def _copies(suffix: str, rows: Sequence[Row]) -> list[str]:
    groups = []
    for name, of_it in by_network(rows):
        found = of_batch(of_it, COPY_BATCH)
        step = {row["transport"]: row["step_ms"] for row in found}
        if {STAGED, FARWRITE} <= set(step):
            drawn = [
                Bar(key, what, step[key], f"{figure(step[key])} ms")
                for key, what in ((STAGED, "one copy"), (FARWRITE, "no copy"))
            ]
            groups.append(Group(f"{name}, batch {found[0]['batch']}", drawn))
    title = f"A step with one copy at the sender, and without{suffix}"
    return [bars(title, groups)] if groups else []
