"""The benchmark ``box``: the parameter box, beside raw limits and beside MPI."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from farwrite.units import format_size
from farwrite_bench._native import SOCKET_TUNING
from farwrite_bench.box import accumulate, bandwidth, emulation, latency, publish
from farwrite_bench.box.plan import (
    ACCUMULATE,
    BANDWIDTH,
    BOX_SHM,
    BOXES,
    EMULATION,
    LATENCY,
    MEGABYTE,
    NETWORKS,
    PUBLISH,
    QUICK_ROUNDS,
    QUICK_STEPS,
    ROUNDS,
    SEGMENT_BYTES,
    STEPS,
    TESTS,
    TRANSPORTS,
    BoxPlan,
    expected_seconds,
    plan_of,
    workers,
)
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress, stage
from farwrite_bench.harness.chart import Bars, BySize
from farwrite_bench.harness.column import Column, Table, marked
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Card, Facts, Gain, Row, figure, rows_of
from farwrite_bench.table import times

RUNS: Mapping[str, Callable[[BoxPlan, Progress, Path], list[Row]]] = {
    LATENCY: latency.run,
    ACCUMULATE: accumulate.run,
    PUBLISH: publish.run,
    BANDWIDTH: bandwidth.run,
    EMULATION: emulation.run,
}
NOTES = (
    "emulation: a worker reads the shared weights, sleeps for the time of the computation, and lets"
    " a helper thread push its delta meanwhile. comm ms: the time of a step minus its computation,"
    " the mean over steps and workers, the median over rounds. Transports take turns. copy: the"
    " worker reads the weights into its own memory. lease: it computes on the server's memory; the"
    " version it leased stays as it is until its next step. The faster way counts. Without"
    " --rounds a network that takes longer than 45 s gets fewer rounds.",
    "mpi: rank 0 holds the weights. preposted: its sends and receives are posted in advance, and it"
    " adds with the box's own kernel and as many threads. one-sided: MPI_Rget and MPI_Raccumulate."
    " The faster of the two counts. mpi-shared: the same memory in all ranks, by"
    " MPI_Win_allocate_shared; it has no target.",
    "1 GB is 10^9 bytes. Ratios compare turns of one round. copies: by the publisher + by each"
    " reader; shared-memory shows its readers torn bytes if they are slow.",
)


def plan(arguments: argparse.Namespace, record: Record) -> BoxPlan:
    """Make every choice, and note what readers of the figures should know of them."""
    made = plan_of(arguments)
    record.notes += [*_notes(made), *filter(None, [made.why_no_mpi])]
    return made


def _notes(plan: BoxPlan) -> Iterator[str]:
    if plan.quick:
        yield "a short run moves so few bytes that they fit the caches; do not quote it"
    elif BANDWIDTH in plan.tests:
        most = max(plan.processes)
        size = bandwidth.segment_bytes(plan, most)
        if size < SEGMENT_BYTES:
            yield (
                f"the available memory allows segments of {format_size(size)} for {most} processes"
                f" instead of {format_size(SEGMENT_BYTES)}"
            )


def measure(plan: BoxPlan, progress: Progress, logs: Path) -> Facts:
    """Run one test after the other."""
    rows = [
        row
        for number, test in enumerate(plan.tests)
        for row in RUNS[test](plan, stage(progress, number, len(plan.tests)), logs)
    ]
    return {"rows": rows}


def _last(row: Row) -> str | None:
    """Write the target of a row, or why it has no figures."""
    if row["skipped"] is not None:
        return f"skipped: {row['skipped']}"
    return marked(row["target"], row["target_met"])


def _ratio(row: Row) -> str | None:
    if row["ratio"] is None:
        return None
    return f"{'>' if row.get('ratio_is_bound') else ''}{row['ratio']:.2f}"


def _way(row: Row) -> str:
    """Name the way by which an emulation exchanged its parameters."""
    transport, variant = row["transport"], row.get("variant") or ""
    return variant if variant.startswith(transport) else f"{transport} {variant}".rstrip()


def _slower(row: Row) -> str | None:
    """Name the ways of a transport that were not the fastest, with their times."""
    others = (row.get("variants") or {}).items()
    found = [f"{key} {took:.1f}" for key, took in others if key != row["variant"]]
    return ", ".join(found) or None


def _spread(row: Row) -> str | None:
    low_high = row.get("spread_ms")
    return low_high and f"{low_high[0]:.1f} to {low_high[1]:.1f}"


def _processes(row: Row) -> str:
    return f"{row['transport']} x {row['workers']}"


TARGET = Column("target", _last)
RATES = (
    Column("GB/s", "gb_s", ".2f"),
    Column("limit GB/s", "limit_gb_s", ".2f"),
    Column("ratio", _ratio),
)


def _table(test: str, title: str, named: int, *columns: Column) -> Table:
    def rows(facts: Facts) -> list[Row]:
        return [row for row in facts["rows"] if row["test"] == test]

    return Table((*columns, TARGET), title, rows, named)


TABLES = (
    _table(
        LATENCY,
        "One read of 1 KiB at a time, from C++; the limit is a plain socket's round trip",
        1,
        Column("transport", "transport"),
        Column("p50 us", "p50_us", ".2f"),
        Column("p99 us", "p99_us", ".2f"),
        Column("limit us", "limit_us", ".2f"),
        Column("ratio", _ratio),
    ),
    _table(
        ACCUMULATE,
        "Accumulate at the server; the limit is a plain float32 loop with as many threads",
        2,
        Column("transport", lambda row: f"{row['transport']} {row['dtype']}"),
        Column("delta", "bytes", format_size),
        *RATES,
    ),
    _table(
        PUBLISH,
        "A model published to 8 readers; the limit is one streaming copy",
        2,
        Column("transport", "transport"),
        Column("model", "bytes", format_size),
        Column("visible ms", "visible_ms", ".1f"),
        *RATES[:2],
        Column("of a copy", _ratio),
        Column("copies", lambda row: f"{row['copies_publisher']} + {row['copies_reader']}"),
    ),
    _table(
        BANDWIDTH,
        "Whole segments, half of the processes read and half write; the limit is a raw loop of as"
        " many processes",
        2,
        Column("transport", _processes),
        Column("segment", "bytes", format_size),
        *RATES,
    ),
    _table(
        EMULATION,
        "Asynchronous training, emulated: exposed communication of one step",
        2,
        Column("network", lambda row: f"{NETWORKS[row['model']].name} x {row['workers']}"),
        Column("transport", _way),
        Column("comm ms", "comm_ms", ".1f"),
        Column("spread", _spread),
        Column("compute ms", "compute_ms", "g"),
        Column("slower way", _slower),
        Column("x less than mpi", _ratio),
    ),
)


def emulation_charts(facts: Facts) -> list[str]:
    """Draw exposed time by the size of the parameters, a chart for each number of workers."""
    measured = [
        {
            **row,
            "size": row["bytes"] / MEGABYTE,
            # A logarithmic axis has no zero; nothing below 0.1 ms differs from it.
            "comm_ms": max(row["comm_ms"], 0.1),
            "spread_ms": [max(end, 0.1) for end in row["spread_ms"]],
        }
        for row in facts["rows"]
        if row["test"] == EMULATION and row["comm_ms"] is not None
    ]
    return [
        drawn
        for number in sorted({row["workers"] for row in measured})
        for drawn in BySize(
            f"Exposed communication of a step, {number} workers",
            "ms",
            "comm_ms",
            x="MB of parameters",
            write_x=lambda megabytes: f"{megabytes:.3g}",
            series="transport",
            order=TRANSPORTS,
            rounds="spread_ms",
        )({"rows": [row for row in measured if row["workers"] == number]})
    ]


def compared(facts: Facts) -> list[Row]:
    """Return the emulations of the box that have a ratio to MPI's."""
    found = (row for row in rows_of(facts) if row["test"] == EMULATION)
    return [row for row in found if row["transport"] in BOXES and row["ratio"] is not None]


def _network(row: Row) -> str:
    return f"{NETWORKS[row['model']].name}, {row['workers']} workers"


def _won(row: Row) -> str:
    return f"{'at least ' if row['ratio_is_bound'] else ''}{times(row['ratio'])}"


def _rates(test: str, what: str) -> Bars:
    """Compare the rate of a test with its limit, which is another bar of each case.

    The multiple is the row's, of turns of one round: that of the two medians may differ.
    """

    def rows(facts: Facts) -> list[Row]:
        found = [row for row in rows_of(facts) if row["test"] == test]
        limits = [
            {**row, "way": "limit", "gb_s": row["limit_gb_s"]}
            for row in found
            if row["limit_gb_s"] is not None
        ]
        return [*({**row, "way": row["transport"]} for row in found), *limits]

    def case(row: Row) -> str:
        more = row["dtype"] if test == ACCUMULATE else f"{row['workers']} processes"
        return f"{row['transport']}, {more}"

    def write(row: Row) -> str:
        of_limit = "" if row["way"] == "limit" else f" ({times(row['ratio'])})"
        return f"{figure(row['gb_s'])} GB/s{of_limit}"

    note = "In brackets: how many times the limit."
    return Bars(
        f"Box: {what}, beside a raw loop",
        *(case, "gb_s", "GB/s"),
        names={"limit": "raw loop"},
        rows=rows,
        note=note,
        write=write,
    )


_OTHERS = (publish.SHARED, "torch-file", "numpy-file")
CHARTS = (
    emulation_charts,
    Bars(
        "Exposed communication: how many times less than MPI",
        *(_network, "ratio", "x"),
        series="transport",
        rows=compared,
        write=_won,
        note="Dashed: as fast as the box. Longer is better.",
        baseline=1.0,
    ),
    _rates(ACCUMULATE, "accumulate"),
    _rates(BANDWIDTH, "whole segments"),
    Bars(
        "Box: a model published to 8 readers",
        *(lambda row: str(row["transport"]), "visible_ms", "ms"),
        series="transport",
        names=dict.fromkeys(_OTHERS, "other ways"),
        colours=dict.fromkeys(_OTHERS, "limit"),
        where=lambda row: row["test"] == PUBLISH,
        note="Until all readers have it.",
    ),
    Bars(
        "Box: one read of 1 KiB",
        *(lambda _: "median", "p50_us", "µs"),
        series="transport",
        where=lambda row: row["test"] == LATENCY,
    ),
)


def gains(facts: Facts) -> list[Gain]:
    """Compare the exposed communication of every emulation with MPI's."""
    return [
        Gain(f"box: {_network(row)}, {row['transport']}", row["ratio"], "MPI")
        for row in compared(facts)
    ]


def cards(facts: Facts) -> list[Card]:
    """Count the targets, and show the part of the limit's rate."""
    found = []
    rows = rows_of(facts)
    moved = [row for row in rows if (row["test"], row["transport"]) == (BANDWIDTH, BOX_SHM)]
    if moved:
        most = max(moved, key=lambda row: int(row["workers"]))
        found.append((f"{most['ratio']:.0%}", f"of a raw loop's rate, {most['workers']} processes"))
    verdicts = [row["target_met"] for row in rows if row["target"] is not None]
    if verdicts:
        found.append((f"{sum(verdicts)} of {len(verdicts)}", "targets of the box met"))
    return found


def sentences(facts: Facts) -> list[str]:
    """Say how MPI was run."""
    settings = facts["settings"]["mpi"]
    return [] if settings is None else [f"mpi settings: {settings}"]


BENCHMARK = Benchmark(
    name="box",
    description="Measure the parameter box: small reads, accumulate, publishing, bandwidth of many"
    " processes, and the asynchronous training of four networks, emulated, beside OpenMPI: workers"
    " read shared weights, sleep for the time of the computation, and push their changes meanwhile."
    " A checkout on Debian unpacks OpenMPI by itself.",
    more_help="By default the run takes less than 10 minutes on two processors.",
    title="The parameter box: emulated asynchronous training, beside MPI",
    example="farwrite bench box --test latency --quick",
    options=(
        option.chosen("--test", TESTS),
        option.chosen("--model", NETWORKS),
        option.chosen("--transport", TRANSPORTS),
        option.Option(
            "--workers",
            "emulated workers, and processes of the bandwidth test, 2 to 32",
            kind=workers,
            metavar="2,8,...",
            shown="8, and 2,8,32; --quick: 2",
        ),
        option.rounds(None, None, f"{ROUNDS}; --quick: {QUICK_ROUNDS}"),
        option.steps(STEPS, QUICK_STEPS),
    ),
    plan=plan,
    seconds=expected_seconds,
    measure=measure,
    summary=lambda plan: f"median of {plan.rounds} rounds",
    settings=lambda plan: {
        "rounds": plan.rounds,
        "steps": plan.steps,
        "mpi": plan.openmpi.settings() if plan.openmpi else None,
        "sockets": SOCKET_TUNING,
    },
    notes=lambda _: NOTES,
    tables=TABLES,
    sentences=sentences,
    charts=CHARTS,
    gains=gains,
    gain_of="less exposed communication than MPI",
    cards=cards,
    passed=lambda facts: all(row.get("verified", True) for row in facts["rows"]),
)
