"""The subcommand ``farwrite bench box``: the parameter box, against limits and against MPI."""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.errors import NotFound
from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench._native import SOCKET_TUNING
from farwrite_bench.box import accumulate, bandwidth, emulation, latency, publish
from farwrite_bench.box.networks import NETWORKS
from farwrite_bench.box.openmpi import OpenMpi, find
from farwrite_bench.box.plan import (
    ACCUMULATE,
    BANDWIDTH,
    EMULATION,
    LATENCY,
    MPI,
    MPI_SHARED,
    NETWORK_SECONDS,
    PROCESSES,
    PUBLISH,
    QUICK_ROUNDS,
    QUICK_STEPS,
    ROUNDS,
    SEGMENT_BYTES,
    SPARE_BYTES,
    STEPS,
    TESTS,
    TRANSPORTS,
    WORKERS,
    BoxPlan,
    expected_seconds,
    networks,
)
from farwrite_bench.box.report import report
from farwrite_bench.box.rows import Row
from farwrite_bench.box.tables import picture, tables
from farwrite_bench.figures import write, write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

MOST_WORKERS = 32
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


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``box``."""
    parser = kinds.add_parser(
        "box",
        help="measure the parameter box beside raw limits and MPI",
        description="Measure the parameter box: small reads, accumulate, publishing, bandwidth of"
        " many processes, and the asynchronous training of four networks, emulated, beside OpenMPI."
        " A checkout on Debian unpacks OpenMPI by itself. By default the run takes less than 10"
        " minutes on two processors.",
        epilog="Example: farwrite bench box --test latency --quick",
    )
    add_choices(parser, "--test", TESTS)
    add_choices(parser, "--model", NETWORKS)
    add_choices(parser, "--transport", TRANSPORTS)
    parser.add_argument(
        "--workers",
        type=workers,
        metavar="2,8,...",
        help="emulated workers, and processes of the bandwidth test, 2 to 32 (default: 8, and"
        " 2,8,32; --quick: 2)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--steps", STEPS, quick=QUICK_STEPS, kind=count)
    add_shared(parser, "--quick", "--json", "--svg", "--report", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables and write the files; return 1 if an update was lost."""
    record = Record("box", quick=arguments.quick)
    plan = _plan(arguments)
    openmpi, why_not = _openmpi(plan)
    record.notes += [*_notes(plan), *([why_not] if why_not else [])]
    record.announce(expected_seconds(plan))
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            rows = _measure(plan, openmpi, why_not, bar, Path(logs))
        finally:
            bar.clear()
    facts = record.facts(
        NOTES,
        settings={
            "rounds": plan.rounds,
            "steps": plan.steps,
            "mpi": openmpi.settings() if openmpi else None,
            "sockets": SOCKET_TUNING,
        },
        rows=rows,
    )
    _print(facts, markdown=arguments.markdown)
    write_json(arguments.json, facts)
    if arguments.report is not None:
        write(arguments.report, report(facts))
    drawn = picture(rows)
    if arguments.svg is not None and drawn is not None:
        write(arguments.svg, drawn)
    return 0 if all(row.get("verified", True) for row in rows) else 1


def _print(facts: dict[str, Any], *, markdown: bool) -> None:
    known, settings = facts["machine"], facts["settings"]
    print(
        f"{known['cpu']}, {known['cpus']} CPUs, Linux {known['kernel']}, copy kernel"
        f" {known['copy_kernel']}, load {facts['load'][0]}; median of {settings['rounds']} rounds"
    )
    table = markdown_table if markdown else text_table
    for title, headers, cells in tables(facts["rows"]):
        print(f"\n{title}\n")
        print("\n".join(table(headers, cells)))
    if settings["mpi"] is not None:
        print(f"\nmpi settings: {settings['mpi']}")
    for note in NOTES:
        print(f"\n{note}")


def _plan(arguments: argparse.Namespace) -> BoxPlan:
    quick = bool(arguments.quick)
    chosen, numbers = arguments.transport or TRANSPORTS, arguments.workers
    return BoxPlan(
        tests=tuple(dict.fromkeys(arguments.test or TESTS)),
        transports=tuple(each for each in TRANSPORTS if each in chosen),
        networks=networks(arguments.model),
        workers=numbers or ((2,) if quick else WORKERS),
        processes=numbers or ((2,) if quick else PROCESSES),
        rounds=arguments.rounds or (QUICK_ROUNDS if quick else ROUNDS),
        steps=arguments.steps or (QUICK_STEPS if quick else STEPS),
        quick=quick,
        available=max(memory_available() - SPARE_BYTES, 0),
        network_seconds=math.inf if arguments.rounds else NETWORK_SECONDS,
    )


def _openmpi(plan: BoxPlan) -> tuple[OpenMpi | None, str]:
    """Find OpenMPI if the plan needs it; otherwise, or without one, return why there is none."""
    if EMULATION not in plan.tests or not {MPI, MPI_SHARED} & {*plan.transports}:
        return None, ""
    try:
        return find(), ""
    except NotFound as error:
        return None, str(error)


def _measure(
    plan: BoxPlan, openmpi: OpenMpi | None, why_not: str, bar: ProgressBar, logs: Path
) -> list[Row]:
    rows: list[Row] = []
    if LATENCY in plan.tests:
        rows += latency.run(plan, bar, logs)
    if ACCUMULATE in plan.tests:
        rows += accumulate.run(plan, bar, logs)
    if PUBLISH in plan.tests:
        rows += publish.run(plan, bar, logs)
    if BANDWIDTH in plan.tests:
        rows += bandwidth.run(plan, bar, logs)
    if EMULATION in plan.tests:
        rows += emulation.run(plan, openmpi, why_not, bar, logs)
    return rows


def _notes(plan: BoxPlan) -> list[str]:
    notes = []
    if plan.quick:
        notes.append("a short run moves so few bytes that they fit the caches; do not quote it")
    elif BANDWIDTH in plan.tests:
        most = max(plan.processes)
        size = bandwidth.segment_bytes(plan, most)
        if size < SEGMENT_BYTES:
            notes.append(
                f"the available memory allows segments of {format_size(size)} for {most} processes"
                f" instead of {format_size(SEGMENT_BYTES)}"
            )
    return notes


def workers(text: str) -> tuple[int, ...]:
    """Convert a list of numbers of workers with commas, and drop repeated ones."""
    found = tuple(dict.fromkeys(count(part) for part in text.split(",") if part))
    for number in found:
        if not 2 <= number <= MOST_WORKERS:
            raise argparse.ArgumentTypeError(f"{number} workers; use 2 to {MOST_WORKERS}")
    if not found:
        raise argparse.ArgumentTypeError("no number of workers; use 2 to 32, as 2,8,32")
    return found
