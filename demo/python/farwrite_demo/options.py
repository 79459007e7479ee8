"""What the demos share: types of their options, files that they write, and the load before them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from farwrite.cli_parser import named_if_unwritable, writable_file
from farwrite.units import parse_size

BUSY_LOAD = 0.5


def count(text: str) -> int:
    """Convert an argument that is 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; use 1 or more")
    return int(text)


def size(text: str) -> int:
    """Convert a number of bytes such as 64M."""
    try:
        found = parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found < 2**20:
        raise argparse.ArgumentTypeError(f"{text} is too small to be timed; use 1M or more")
    return found


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Add --rounds, --json and --svg."""
    parser.add_argument(
        "--rounds",
        type=count,
        default=2,
        metavar="N",
        help="run this many rounds and show the best (default: 2)",
    )
    for name, what in (("--json", "the figures as JSON"), ("--svg", "a chart as SVG")):
        parser.add_argument(
            name, type=writable_file, metavar="FILE", help=f"also write {what} to FILE"
        )


def write(path: Path | None, text: str) -> None:
    """Write `text` to `path`; None writes nothing.

    Raises
    ------
    FailedPrecondition
        If the file cannot be written.
    """
    if path is not None:
        with named_if_unwritable(path):
            path.write_text(text, encoding="utf-8")


def load() -> list[float]:
    """Return the load averages of 1, 5 and 15 minutes. Take them before measuring."""
    return [round(value, 2) for value in os.getloadavg()]


def warn_if_busy(averages: list[float]) -> None:
    """Print a warning if the machine was not idle."""
    if averages[0] > BUSY_LOAD:
        print(
            f"The machine was not idle before this run (load {averages[0]}): times are longer than"
            " on an idle machine, and ratios are less certain."
        )
