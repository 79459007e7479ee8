"""The subcommand ``farwrite demo``: its options, its table and its files.

Without a further word it races four ways to hand an array over; ``training`` is another demo.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.info import limits, memory_available, version
from farwrite.units import format_size, parse_size
from farwrite_bench.demo.chart import draw, seconds
from farwrite_bench.demo.checksum import BLOCK_BYTES
from farwrite_bench.demo.race import ARRAYS_IN_MEMORY, SLOW_SECONDS, Result, race
from farwrite_bench.demo.training import command as training

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 2**29


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``demo``."""
    parser = subparsers.add_parser(
        "demo",
        help="hand a 1 GB array to another process in four ways and compare",
        description="Hand a NumPy array to a second process: pickled over a pipe, through"
        " shared_memory, and by Farwrite's write and alias. Every transfer is checked in full.",
    )
    parser.add_argument("--size", type=_size, default="1G", help="of the array (default: 1G)")
    parser.add_argument("--rounds", type=_rounds, default=2, help="best of this many (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw a picture there")
    trace.add_option(parser)
    parser.set_defaults(run=run)
    training.add_parser(parser.add_subparsers(metavar="WHAT", title="more demos"))


def run(arguments: argparse.Namespace) -> int:
    """Race, print the table and write the files that were asked for."""
    size = affordable(arguments.size, memory_available())
    if size < arguments.size:
        print(
            f"demo: {format_size(arguments.size)} need about"
            f" {format_size(ARRAYS_IN_MEMORY * arguments.size)} of memory, and"
            f" {format_size(memory_available())} are available; taking {format_size(size)}",
            file=sys.stderr,
        )
    results = race(size, arguments.rounds)
    print("\n".join(table(results, size, arguments.rounds)))
    if arguments.json is not None:
        facts = figures(results, size, arguments.rounds)
        _write(arguments.json, json.dumps(facts, indent=2) + "\n")
    if arguments.svg is not None:
        _write(arguments.svg, draw(results, size))
    return 0


def affordable(size: int, available: int) -> int:
    """Lower `size` to what `available` bytes allow; a whole number of MiB, at least one."""
    most = (available - SPARE_BYTES) // ARRAYS_IN_MEMORY
    return max(min(size, most) // BLOCK_BYTES, 1) * BLOCK_BYTES


def table(results: Sequence[Result], size: int, rounds: int) -> Iterator[str]:
    """Lay the results out for people, line by line."""
    yield ""
    yield f"{format_size(size)} from one process to another; every checksum agreed"
    if rounds > 1:
        yield f"(best of {rounds} rounds; what takes over {SLOW_SECONDS:.0f} s ran once)"
    yield ""
    yield f"  {'':<20} {'there after':>12} {'GB/s':>8} {'read after':>12} {'GB/s':>8}"
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
    """Make the JSON object: bytes, seconds, and 1e9 bytes a second."""
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
    # Nothing moved at that speed: an alias has no rate, only a time.
    return f"{rate:.1f}" if rate < 1000 else "-"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _size(text: str) -> int:
    try:
        size = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if size < BLOCK_BYTES:
        raise argparse.ArgumentTypeError(f"{text} is too little to time; give at least 1M")
    return size


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds from 1 on")
    return int(text)
