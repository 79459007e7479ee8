"""The subcommand ``farwrite bench assign``: adds a worker's vector to a remote variable.

TensorFlow's users compare transports by this step in https://github.com/tensorflow/tensorflow/issues/4498
and https://github.com/tensorflow/tensorflow/issues/6116. The benchmark differs from their programs
in two points: all ways take turns in one run, and the session is on the worker, as in training.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farwrite.errors import ResourceExhausted
from farwrite.info import memory_available
from farwrite_bench.assign.plan import (
    ELEMENT,
    MEGABYTE,
    MEMORY_PER_SIZE,
    QUICK_SIZES,
    SIZES,
    AssignPlan,
    in_megabytes,
)
from farwrite_bench.assign.rows import Row, sentences
from farwrite_bench.assign.run import run as measure
from farwrite_bench.cluster.plugin import PLUGIN, measuring
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_number, add_shared, count
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_bench.tensor.command import SPARE_BYTES
from farwrite_bench.tensor.plan import GRPC_LIMIT
from farwrite_bench.tensor.run import WARM_UP_STEPS

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

ROUNDS = 9
QUICK_ROUNDS = 2
STEPS = 10
"""As in the program of the issues."""
HEADERS = (
    "size",
    "way",
    "fabric",
    "GB/s",
    "spread",
    "x grpc",
    "spread",
    "of local",
    "step ms",
    "empty ms",
    "cpu ms",
    "tensors",
    "RPCs",
    "copies",
    "socket bytes",
)
NOTES = (
    "A step adds a worker's vector of int32 to a variable of the parameter server (TensorFlow's"
    " issues 4498 and 6116). GB/s: the bytes of a turn's steps divided by their time; 1 GB is 10^9"
    " bytes. local: vector and variable are in one process and one session, without a server.",
    "Figures are medians. Ratios compare turns of one round, and spread is the lowest and the"
    " highest round. empty ms: a step without a vector. cpu ms, tensors, RPCs, copies and socket"
    " bytes are per step, for all processes of the way together. tensors: vectors that Farwrite"
    " moved. RPCs: RecvTensor calls.",
    "The vector is the same in every step, so a small one may stay in the caches, on every way."
    " gRPC has TensorFlow's defaults. Every way has one thread per core and no graph optimizers.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``assign``."""
    parser = kinds.add_parser(
        "assign",
        help="measure adding to a variable of another TensorFlow task",
        description="Measure how many bytes per second assign_add adds to a variable of another"
        " task. One process, stock gRPC and Farwrite take turns. This is the benchmark of"
        " TensorFlow's issues 4498 and 6116. Needs TensorFlow.",
        epilog="Example: farwrite bench assign --megabytes 10,100",
    )
    parser.add_argument(
        "--megabytes",
        type=_sizes,
        metavar="10,100,...",
        help="sizes of the vector, in 10^6 bytes (default: 10,100,400; --quick: 1,10)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_number(parser, "--steps", STEPS, kind=count)
    add_shared(parser, "--fabric", "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench assign", "tensorflow")
    record = Record("assign", quick=arguments.quick)
    wanted = arguments.megabytes or (QUICK_SIZES if arguments.quick else SIZES)
    sizes = affordable(wanted, memory_available())
    if dropped := [size for size in wanted if size not in sizes]:
        record.notes.append(f"too little memory is available for {_listed(dropped)}; left out")
    record.announce()
    plan = AssignPlan(
        sizes=sizes,
        rounds=arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS),
        steps=arguments.steps,
        fabric=arguments.fabric,
    )
    with measuring(PLUGIN) as (bar, logs):
        rows = measure(plan, bar, logs)
    print(
        f"{record.conditions()}; {_listed(sizes)}, {plan.rounds} rounds of {plan.steps} steps after"
        f" {WARM_UP_STEPS} of warm-up, fabric {plan.fabric or 'chosen by Farwrite'}\n"
    )
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    for line in (*sentences(rows), *NOTES):
        print(f"\n{line}")
    write_json(
        arguments.json,
        record.facts(
            NOTES,
            settings={
                "sizes": plan.sizes,
                "rounds": plan.rounds,
                "steps": plan.steps,
                "warm_up_steps": WARM_UP_STEPS,
                "fabric": plan.fabric,
            },
            rows=rows,
        ),
    )
    return 0


def affordable(sizes: Sequence[int], available: int) -> tuple[int, ...]:
    """Leave out the sizes that need more than `available` bytes of memory.

    Raises
    ------
    ResourceExhausted
        If no size is left.
    """
    most = (available - SPARE_BYTES) / MEMORY_PER_SIZE
    left = tuple(size for size in sizes if size <= most)
    if not left:
        raise ResourceExhausted(
            f"bench assign: a vector of {in_megabytes(min(sizes))} needs"
            f" {(MEMORY_PER_SIZE * min(sizes) + SPARE_BYTES) / 1e9:.1f} GB of memory, and"
            f" {available / 1e9:.1f} GB are available; end other programs"
        )
    return left


def cells(row: Row) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""

    def known(value: float | None) -> str:
        return "-" if value is None else f"{value:g}"

    gb_s, of_grpc = row["gb_s_rounds"], row["times_grpc"]
    return (
        in_megabytes(row["size"]),
        row["way"],
        row["fabric"],
        f"{row['gb_s']:.3g}",
        f"{min(gb_s):.3g} to {max(gb_s):.3g}",
        f"{of_grpc['median']:.3g}",
        f"{of_grpc['low']:.3g} to {of_grpc['high']:.3g}",
        f"{row['of_local']['median']:.2f}",
        f"{row['step_ms']:.4g}",
        f"{row['empty_step_ms']:.3g}",
        f"{row['cpu_ms']:.4g}",
        known(row["tensors"]),
        known(row["grpc_tensor_calls"]),
        known(row["copies"]),
        f"{row['socket_bytes']:.0f}",
    )


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(in_megabytes, sizes))


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(round(float(part) * MEGABYTE) for part in text.split(",") if part)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of megabytes; use a list such as 10,100"
        ) from None
    if not sizes or any(size % ELEMENT or not 0 < size < GRPC_LIMIT for size in sizes):
        raise argparse.ArgumentTypeError(
            f"{text!r}: use sizes that are multiples of {ELEMENT} bytes and below {GRPC_LIMIT}"
            " bytes, the limit of stock gRPC"
        )
    return tuple(dict.fromkeys(sizes))
