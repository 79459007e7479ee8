"""Training of whole networks: throughput by batch size, and gains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, beside, lines, standalone
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import (
    Card,
    Facts,
    Gain,
    Row,
    Table,
    figure,
    rows_of,
    varying,
)
from farwrite_bench.table import times
from farwrite_experiments.sections.networks import NAMES as NETWORKS
from farwrite_experiments.sections.networks import name_of
from farwrite_experiments.train.plan import TRANSPORTS
from farwrite_experiments.train.rows import gain, least, ratio_text

TITLE = "Training: throughput by batch size, and what Farwrite gains"
LEAD = (
    "Each line is a transport. Exposed communication is the step minus the same step in one"
    " process: the time that computation does not hide."
)
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
BATCH, COPY_BATCH = 32, 8
"""The batches of the bars, or the nearest that were measured: those of the paper."""
HEADERS = (
    *("network", "mode", "computation", "transport", "fabric", "batch", "servers", "workers"),
    *("step ms", "spread", "compute ms", "exposed ms", "95 % interval", "samples/s", "x grpc"),
    *("exposed, x less", "copies", "registrations", "requests", "tensor bytes", "socket bytes"),
    *("cpu s", "rounds", "load"),
)


def measured(facts: Facts) -> list[Row]:
    """Return the rows with a throughput."""
    rows = [row for row in rows_of(facts) if row["samples_s"] is not None]
    return [row for row in rows if not row.get("repeated")]


def figures(facts: Facts) -> list[str]:
    """Draw a chart for each network, then the bars of all networks, for each fabric."""
    rows = measured(facts)
    drawn = []
    for suffix, of_fabric in by_fabric(rows):
        named = [(name + suffix, of_it) for name, of_it in by_network(of_fabric)]
        drawn += [_throughput(name, of_it) for name, of_it in named]
        drawn += _speedups(suffix, of_fabric)
        drawn += _copies(suffix, of_fabric)
    return drawn


def by_fabric(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each fabric, with stock gRPC's, and the end of their charts' titles."""
    fabrics = list(dict.fromkeys(row["fabric"] for row in rows if not _is_shared(row)))
    for fabric in fabrics or [None]:
        suffix = f", over {fabric}" if len(fabrics) > 1 else ""
        yield suffix, [row for row in rows if _is_shared(row) or row["fabric"] == fabric]


def _is_shared(row: Row) -> bool:
    return row["transport"] in (GRPC, LOCAL)


def by_network(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each network, and of each way to run it, with its name."""
    columns = varying(rows, QUALIFIERS)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["model"], *(str(row.get(c)) for c in columns)), []).append(row)
    known = [*NETWORKS]
    order = sorted(groups, key=lambda key: known.index(key[0]) if key[0] in known else len(known))
    for key in order:
        qualifiers = [_qualifier(*each) for each in zip(columns, key[1:], strict=True)]
        yield ", ".join([name_of(key[0]), *qualifiers]), groups[key]


def _qualifier(column: str, value: str) -> str:
    if column == "sync":
        return "synchronous" if value == "True" else "asynchronous"
    return value if column in ("mode", "compute") else f"{value} {column}"


def _keys(rows: Sequence[Row]) -> list[str]:
    order = [*NAMES]
    return sorted(dict.fromkeys(row["transport"] for row in rows), key=order.index)


def _throughput(name: str, rows: Sequence[Row]) -> str:
    batches = sorted({row["batch"] for row in rows})
    if len(batches) == 1:
        found = [
            Bar(key, NAMES[key], row["samples_s"], figure(row["samples_s"]))
            for key in _keys(rows)
            for row in rows
            if row["transport"] == key
        ]
        return bars(name, [Group(f"samples/s, batch {batches[0]}", found)])
    look = Look(name, "batch of a worker", "samples/s", log_x=True, ticks_x=batches)
    return lines(
        look,
        [
            Series(
                key,
                NAMES[key],
                sorted((row["batch"], row["samples_s"]) for row in rows if row["transport"] == key),
            )
            for key in _keys(rows)
        ],
    )


def of_batch(rows: Sequence[Row], batch: int) -> list[Row]:
    """Return the rows of the batch that is nearest to `batch`."""
    nearest = min((row["batch"] for row in rows), key=lambda each: abs(each - batch))
    return [row for row in rows if row["batch"] == nearest]


def headline(facts: Facts) -> str | None:
    """Draw the main figure of the page: the gains in training."""
    drawn = speedup_charts(facts)
    return standalone(beside("What Farwrite gains in training", drawn[:2])) if drawn else None


def speedup_charts(facts: Facts) -> list[str]:
    """Draw how many times less Farwrite exposes, and how many times more it trains."""
    return [
        chart
        for suffix, of_fabric in by_fabric(measured(facts))
        for chart in _speedups(suffix, of_fabric)
    ]


def _speedups(suffix: str, rows: Sequence[Row]) -> list[str]:
    exposed, throughput = [], []
    for name, of_it in by_network(rows):
        chosen = of_batch(of_it, BATCH)
        rivals = [row for row in chosen if row["transport"] in (GRPC, RPC)]
        for ours in (row for row in chosen if row["transport"] == FARWRITE):
            case = f"{name}, batch {ours['batch']}"
            less = [_less(ours, row) for row in rivals]
            more = [_more(ours, row) for row in rivals]
            exposed.append(Group(case, [bar for bar in less if bar is not None]))
            throughput.append(Group(case, [bar for bar in more if bar is not None]))
    note = "Dashed: as fast as Farwrite. Longer is better."
    return [
        bars(title + suffix, [group for group in groups if group.bars], note, 1.0)
        for title, groups in (
            ("Exposed communication: how many times less with Farwrite", exposed),
            ("Throughput: how many times more with Farwrite", throughput),
        )
        if any(group.bars for group in groups)
    ]


def less_exposed(ours: Row, theirs: Row) -> Row | None:
    """Return how many times less communication Farwrite exposes, with its interval."""
    ratio: Row | None = ours["of_grpc" if theirs["transport"] == GRPC else "of_rpc"]
    return ratio


def _less(ours: Row, theirs: Row) -> Bar | None:
    ratio = less_exposed(ours, theirs)
    return None if ratio is None else _bar(theirs, least(ratio), ratio_text(ratio))


def _more(ours: Row, theirs: Row) -> Bar | None:
    ratio = gain(ours, theirs)
    return None if ratio is None else _bar(theirs, ratio, times(ratio))


def _bar(row: Row, ratio: float, text: str) -> Bar | None:
    if ratio <= 0:
        return None
    return Bar(row["transport"], f"than {NAMES[row['transport']]}", ratio, text)


def _copies(suffix: str, rows: Sequence[Row]) -> list[str]:
    groups = []
    for name, of_it in by_network(rows):
        step = {row["transport"]: row["step_ms"] for row in of_batch(of_it, COPY_BATCH)}
        if STAGED in step and FARWRITE in step:
            found = [
                Bar(key, what, step[key], f"{figure(step[key])} ms")
                for key, what in ((STAGED, "one copy"), (FARWRITE, "no copy"))
            ]
            groups.append(Group(f"{name}, batch {of_batch(of_it, COPY_BATCH)[0]['batch']}", found))
    title = f"A step with one copy at the sender, and without{suffix}"
    return [bars(title, groups)] if groups else []


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("Training", HEADERS, [_cells(row) for row in facts["rows"]])]


def _cells(row: Row) -> list[str]:
    def interval(ends: Sequence[float] | None) -> str:
        return "-" if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"

    of_grpc = row["of_grpc"]
    return [
        name_of(row["model"]),
        *(str(row[name]) for name in ("mode", "compute", "transport", "fabric", "batch")),
        *(str(row[name]) for name in ("servers", "workers")),
        figure(row["step_ms"], 4),
        interval((min(row["step_ms_rounds"]), max(row["step_ms_rounds"]))),
        figure(row["compute_ms"], 4),
        figure(row["comm_ms"]),
        interval(row["comm_ms_ci"]),
        figure(row["samples_s"]),
        "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
        "-" if of_grpc is None else ratio_text(of_grpc),
        figure(row["copies_per_step"]),
        figure(row["registrations_per_step"]),
        figure(row["requests_per_step"]),
        figure(row["tensor_bytes_per_step"], 12),
        figure(row["socket_bytes_per_step"], 12),
        figure(row["cpu_s_per_step"]),
        str(row["rounds"]),
        str(row["load"]),
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gains beside stock gRPC."""
    ours = [row for row in measured(facts) if row["transport"] == FARWRITE]
    found: list[Card] = []
    gaining = [row for row in ours if row["speedup"] is not None]
    if gaining:
        best = max(gaining, key=lambda row: float(row["speedup"]))
        found.append((times(best["speedup"]), f"throughput of stock gRPC, {_case(best)}"))
    exposing = [row for row in ours if row["of_grpc"] is not None]
    if exposing:
        best = max(exposing, key=lambda row: least(row["of_grpc"]))
        found.append(
            (
                ratio_text(best["of_grpc"]),
                f"less exposed communication than stock gRPC, {_case(best)}",
            )
        )
    copies = [row["copies_per_step"] for row in ours if row["copies_per_step"] is not None]
    if copies:
        found.append((figure(max(copies)), "copies of a tensor in a training step, at most"))
    return found


def _case(row: Row) -> str:
    return f"{name_of(row['model'])}, batch {row['batch']}, {row['fabric']}"


def gains(facts: Facts) -> list[Gain]:
    """Compare the throughput of every row of Farwrite with stock gRPC's."""
    found = []
    for name, of_it in by_network(measured(facts)):
        for row in of_it:
            if row["transport"] == FARWRITE and row["speedup"] is not None:
                share = ""
                if row["compute_ms"] is not None and row["step_ms"]:
                    part = min(row["compute_ms"] / row["step_ms"], 1.0)
                    share = f"computation is {part:.0%} of the step"
                found.append(
                    Gain(
                        f"training {name}, batch {row['batch']}, {row['fabric']}",
                        float(row["speedup"]),
                        "stock gRPC",
                        share,
                    )
                )
    return found
