"""The subcommand ``farwrite bench gpu``: its options, its table and its file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from farwrite_bench.figures import write_json
from farwrite_bench.gpu.rows import HEADERS, cells, hand_over_rows, make_rows, sentences
from farwrite_bench.gpu.run import run as measure
from farwrite_bench.options import add_number, add_shared, count, sizes
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SIZES = (1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30)
QUICK_SIZES = (1 << 20, 16 << 20)
ROUNDS = 7
QUICK_ROUNDS = 2
NOTES = (
    "Two processes on one GPU. copy: the driver's cuMemcpyAsync and the wait for its event, in one"
    " process. write: Channel.write with a notification into the other process's memory on the GPU."
    " alias: the driver's copy from the other process's memory, mapped without a copy. torch: the"
    " same from a tensor that PyTorch shared. to host, from host: over the bus; the driver's copy"
    " has pinned memory. All transfers are waited for, one by one.",
    "pins: segments that were registered with the driver during the turns; 0 in the steady state.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``gpu``."""
    parser = kinds.add_parser(
        "gpu",
        help="measure moving bytes between two processes on one GPU",
        description="Move bytes between two processes on one GPU, and between the GPU and the"
        " other process's host memory, in turns with the driver's copies in one process. Needs"
        " NVIDIA's driver; with PyTorch also its way to share tensors.",
        epilog="Example: farwrite bench gpu --quick",
    )
    parser.add_argument(
        "--gpu", type=int, default=0, metavar="N", help="number of the GPU (default: 0)"
    )
    parser.add_argument(
        "--sizes",
        type=sizes,
        metavar="1M,16M,...",
        help="bytes of one transfer (default: 1M,16M,64M,256M,1G; --quick: 1M,16M)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    record = Record("gpu", quick=arguments.quick)
    wanted = arguments.sizes or (QUICK_SIZES if arguments.quick else SIZES)
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    record.announce(60 if arguments.quick else 120)
    bar = ProgressBar()
    try:
        result = measure(wanted, rounds, arguments.gpu, bar)
    finally:
        bar.clear()
    rows = make_rows(result)
    print(f"{result.gpu}, {record.conditions()}; {rounds} rounds\n")
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    for line in (*sentences(result), *NOTES):
        print(f"\n{line}")
    plan = {"sizes": wanted, "rounds": rounds, "gpu": arguments.gpu}
    write_json(
        arguments.json,
        record.facts(NOTES, plan=plan, gpu=result.gpu, rows=rows, hand_over=hand_over_rows(result)),
    )
    return 0
