"""The command ``farwrite demo``: its options, its table and its files.

``farwrite demo`` alone compares four ways to hand over an array. ``farwrite demo training`` and
``farwrite demo box`` are further demos.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.info import limits, memory_available, version
from farwrite.units import format_size
from farwrite_demo import box
from farwrite_demo.chart import Row, draw, duration
from farwrite_demo.options import add_shared, size, write
from farwrite_demo.race import ARRAYS_IN_MEMORY, BLOCK_BYTES, SLOW_SECONDS, WAYS, Result, race
from farwrite_demo.training import command as training

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 2**29


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="hand 1 GiB to another process in four ways, and compare them",
        description="Hand a NumPy array to a second process in four ways: pickled over a pipe,"
        " through shared_memory, by Farwrite's write and by Farwrite's alias. Every byte of every"
        " transfer is checked.",
        epilog="Example: farwrite demo --size 256M",
    )
    parser.add_argument("--size", type=size, default="1G", help="size of the array (default: 1G)")
    add_shared(parser)
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
            f"farwrite demo: an array of {format_size(arguments.size)} needs about"
            f" {format_size(ARRAYS_IN_MEMORY * arguments.size)} of memory, and"
            f" {format_size(memory_available())} are available; using an array of"
            f" {format_size(array_bytes)}",
            file=sys.stderr,
        )
    results = race(array_bytes, arguments.rounds)
    print("\n".join(table(results, array_bytes, arguments.rounds)))
    write(arguments.json, json.dumps(figures(results, array_bytes, arguments.rounds), indent=2))
    write(arguments.svg, picture(results, array_bytes))
    return 0


def affordable(size: int, available: int) -> int:
    """Lower `size` to what `available` bytes allow: a whole number of MiB, and at least 1 MiB."""
    most = (available - SPARE_BYTES) // ARRAYS_IN_MEMORY
    return max(min(size, most) // BLOCK_BYTES, 1) * BLOCK_BYTES


def table(results: Mapping[str, Result], size: int, rounds: int) -> Iterator[str]:
    """Format the results as the lines of a table, and say which ratios to expect."""
    yield f"\n{format_size(size)} from one process to another; every checksum was right"
    if rounds > 1:
        yield f"(best of {rounds} rounds; a way that takes over {SLOW_SECONDS:.0f} s ran once)"
    yield f"\n  {'':<20} {'arrived':>12} {'GB/s':>8} {'read':>12} {'GB/s':>8}"
    for key, result in results.items():
        yield (
            f"  {WAYS[key].name:<20}"
            f" {duration(result.seconds):>12} {_rate(size, result.seconds):>8}"
            f" {duration(result.seconds_read):>12} {_rate(size, result.seconds_read):>8}"
        )
    yield ""
    for way in WAYS.values():
        yield f"  {way.name}: {way.copied}"
    took = results["write"].seconds
    yield (
        f"\nA write arrived {results['pickle'].seconds / took:.0f} times as fast as a pickle, and"
        f" in {took / results['shared_memory'].seconds:.2f} times the time that shared_memory took."
    )
    yield (
        "To expect for 1 GiB: a write is 60 to 130 times as fast as a pickle, and about as fast\n"
        "as shared_memory, because both are one copy. An alias arrives within 0.1 ms."
    )


def figures(results: Mapping[str, Result], size: int, rounds: int) -> dict[str, Any]:
    """Make the JSON object: bytes, seconds, and rates in 1e9 bytes per second."""
    return {
        "version": version(),
        "machine": limits(),
        "bytes": size,
        "rounds": rounds,
        "ways": [
            {
                "way": key,
                "name": WAYS[key].name,
                "seconds": result.seconds,
                "gb_s": size / result.seconds / 1e9,
                "seconds_read": result.seconds_read,
                "gb_s_read": size / result.seconds_read / 1e9,
                "copied": WAYS[key].copied,
                "verified": True,
            }
            for key, result in results.items()
        ],
    }


def picture(results: Mapping[str, Result], size: int) -> str:
    """Draw one bar for each way: the time until the array arrived, then until it was read."""
    return draw(
        f"A NumPy array of {format_size(size)}, from one process to another",
        "Time until the receiver has it (strong) and has read all of it (pale). Less is better.",
        [
            Row(WAYS[key].name, key in ("write", "alias"), result.seconds, result.seconds_read)
            for key, result in results.items()
        ],
    )


def _rate(size: int, seconds: float) -> str:
    rate = size / seconds / 1e9
    # An alias moves no bytes, so it has a time and no rate.
    return f"{rate:.1f}" if rate < 1000 else "-"
