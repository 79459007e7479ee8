"""The subcommand ``farwrite bench step``: its options, its table and its file."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count
from farwrite_bench.record import Record
from farwrite_bench.step.plan import KINDS, WAYS, StepPlan, expected_seconds
from farwrite_bench.step.rows import Row
from farwrite_bench.step.run import run as measure
from farwrite_bench.table import markdown_table, text_table
from farwrite_bench.tensor.tables import control

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

ROUNDS, QUICK_ROUNDS = 15, 2
KIND_SECONDS = 60
HEADERS = (
    "kind",
    "way",
    "fabric",
    "step ms",
    "spread",
    "mean ms",
    "of grpc",
    "spread",
    "of local",
    "cpu ms",
    "control",
    "socket bytes",
)
NOTES = (
    "step ms: the median over the rounds of a turn's median step; spread is the lowest and the"
    " highest round. mean ms: the mean of all steps, which a busy core raises more than the median."
    " of grpc and of local compare turns of one round. cpu ms: user and system time"
    " of a step, of all processes of the way together. control: control calls of a step between"
    " tasks, by Farwrite + by gRPC; it is not counted by stock TensorFlow, nor with control off.",
    "grpc: stock TensorFlow. control off and control on: Farwrite with FARWRITE_TF_CONTROL=off and"
    " on. local: the same step in one process, Python included.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``step``."""
    parser = kinds.add_parser(
        "step",
        help="measure small steps of four kinds of TensorFlow programs",
        description="Measure how long a small step takes, and what it costs in processor time and"
        " control calls: a v1 session, a TF2 function over two tasks, a function that a"
        " coordinator schedules, and an eager operation on another task. Stock gRPC, Farwrite"
        " without and with control calls, and one process take turns. Needs TensorFlow.",
        epilog="Example: farwrite bench step --quick",
    )
    add_choices(parser, "--kind", KINDS)
    add_choices(parser, "--way", WAYS)
    parser.add_argument(
        "--busy",
        type=_cores,
        default=0,
        metavar="N",
        help="keep N cores busy while the steps run, with one process on each (default: 0)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--seconds", KIND_SECONDS, kind=float)
    add_shared(parser, "--fabric", "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench step", "tensorflow")
    record = Record("step", quick=arguments.quick)
    plan = StepPlan(
        kinds=tuple(key for key in KINDS if key in (arguments.kind or KINDS)),
        ways=tuple(key for key in WAYS if key in (arguments.way or WAYS)),
        rounds=arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS),
        kind_seconds=arguments.seconds,
        busy=arguments.busy,
        fabric=arguments.fabric,
    )
    record.announce(expected_seconds(plan))
    with measuring(*programs([WAYS[key] for key in plan.ways])) as (bar, logs):
        rows = measure(plan, bar, logs)
    print(
        f"{record.conditions()}; cores kept busy: {plan.busy}, up to {plan.rounds} rounds, fabric"
        f" {plan.fabric or 'chosen by Farwrite'}\n"
    )
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    steps = tuple(f"{key}: {KINDS[key].step}." for key in plan.kinds)
    for line in (*steps, *NOTES):
        print(f"\n{line}")
    write_json(
        arguments.json,
        record.facts(
            (*steps, *NOTES),
            settings={
                "rounds": plan.rounds,
                "busy": plan.busy,
                "fabric": plan.fabric,
            },
            rows=rows,
        ),
    )
    return 0


def cells(row: Row) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    rounds, of_grpc, of_local = row["step_ms_rounds"], row["of_grpc"], row["of_local"]
    return (
        row["kind"],
        row["way"],
        row["fabric"],
        f"{row['step_ms']:.3f}",
        f"{min(rounds):.3f} to {max(rounds):.3f}",
        f"{row['mean_ms']:.3f}",
        f"{of_grpc['median']:.2f}" if of_grpc else "-",
        f"{of_grpc['low']:.2f} to {of_grpc['high']:.2f}" if of_grpc else "-",
        f"{of_local['median']:.1f}" if of_local else "-",
        f"{row['cpu_ms']:.3f}",
        control(row["control"]),
        f"{row['socket_bytes']:.0f}",
    )


def _cores(text: str) -> int:
    most = len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) > most:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of cores; use 0 to {most}, the cores of this machine"
        )
    return int(text)
