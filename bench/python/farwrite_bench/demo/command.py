"""The command ``farwrite demo``: its options, its table and its files.

``farwrite demo`` alone compares four ways to hand over an array. ``farwrite demo training`` and
``farwrite demo box`` are further demos.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.info import limits, memory_available, version
from farwrite.units import format_size
from farwrite_bench.demo import box
from farwrite_bench.demo.chart import draw, seconds
from farwrite_bench.demo.checksum import BLOCK_BYTES
from farwrite_bench.demo.race import ARRAYS_IN_MEMORY, SLOW_SECONDS, Result, race
from farwrite_bench.demo.training import command as training
from farwrite_bench.figures import write, write_json
from farwrite_bench.options import add_shared, count, size

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 2**29


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="hand 1 GB to another process in four ways, and compare them",
        description="Hand a NumPy array to a second process in four ways: pickled over a pipe,"
        " through shared_memory, by Farwrite's write and by Farwrite's alias. Every byte of every"
        " transfer is checked.",
        epilog="Example: farwrite demo --size 256M",
    )
    parser.add_argument("--size", type=_size, default="1G", help="size of the array (default: 1G)")
    parser.add_argument(
        "--rounds",
        type=count,
        default=2,
        metavar="N",
        help="run this many rounds and show the best (default: 2)",
    )
    add_shared(parser, "--json", "--svg")
    trace.add_option(parser)
    parser.set_defaults(run=run)
    more = parser.add_subparsers(metavar="DEMO", title="more demos")
    training.add_parser(more)
    box.add_parser(more)


def run(arguments: argparse.Namespace) -> int:
    """Run the race, print the table and write the requested files."""
    array_bytes = affordable(arguments.size, memory_available())
    if array_bytes < arguments.size:
        print(
            f"demo: an array of {format_size(arguments.size)} needs about"
            f" {format_size(ARRAYS_IN_MEMORY * arguments.size)} of memory, and"
            f" {format_size(memory_available())} are available; using an array of"
            f" {format_size(array_bytes)}",
            file=sys.stderr,
        )
    results = race(array_bytes, arguments.rounds)
    print("\n".join(table(results, array_bytes, arguments.rounds)))
    write_json(arguments.json, figures(results, array_bytes, arguments.rounds))
    if arguments.svg is not None:
        write(arguments.svg, draw(results, array_bytes))
    return 0


def affordable(size: int, available: int) -> int:
    """Lower `size` to what `available` bytes allow: a whole number of MiB, and at least 1 MiB."""
    most = (available - SPARE_BYTES) // ARRAYS_IN_MEMORY
    return max(min(size, most) // BLOCK_BYTES, 1) * BLOCK_BYTES


def table(results: Sequence[Result], size: int, rounds: int) -> Iterator[str]:
    """Format the results as the lines of a table."""
    yield ""
    yield f"{format_size(size)} from one process to another; every checksum was right"
    if rounds > 1:
        yield f"(best of {rounds} rounds; a way that takes over {SLOW_SECONDS:.0f} s ran once)"
    yield ""
    yield f"  {'':<20} {'arrived':>12} {'GB/s':>8} {'read':>12} {'GB/s':>8}"
    for result in results:
        yield (
            f"  {result.way.name:<20}"
            f" {seconds(result.seconds):>12} {_rate(size, result.seconds):>8}"
            f" {seconds(result.seconds_read):>12} {_rate(size, result.seconds_read):>8}"
        )
    yield ""
    for result in results:
        yield f"  {result.way.name}: {result.way.copied}"


def figures(results: Sequence[Result], size: int, rounds: int) -> dict[str, Any]:
    """Make the JSON object: bytes, seconds, and rates in 1e9 bytes per second."""
    return {
        "version": version(),
        "machine": limits(),
        "bytes": size,
        "rounds": rounds,
        "ways": [
            {
                "way": result.way.key,
                "name": result.way.name,
                "seconds": result.seconds,
                "gb_s": size / result.seconds / 1e9,
                "seconds_read": result.seconds_read,
                "gb_s_read": size / result.seconds_read / 1e9,
                "copied": result.way.copied,
                "verified": True,
            }
            for result in results
        ],
    }


def _rate(size: int, duration: float) -> str:
    rate = size / duration / 1e9
    # An alias moves no bytes, so it has a time and no rate.
    return f"{rate:.1f}" if rate < 1000 else "-"


def _size(text: str) -> int:
    array_bytes = size(text)
    if array_bytes < BLOCK_BYTES:
        raise argparse.ArgumentTypeError(f"{text} is too small to be timed; use 1M or more")
    return array_bytes
