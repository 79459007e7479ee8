"""The options that several subcommands share, each declared once, and types of their arguments."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable
from typing import Any

from farwrite.cli_parser import writable_file
from farwrite.units import parse_size

_FILE = {"type": writable_file, "metavar": "FILE"}
_SHARED: dict[str, dict[str, Any]] = {
    "--quick": {
        "action": "store_true",
        "help": "make a short run, which shows that the command works, not how fast Farwrite is",
    },
    "--json": {**_FILE, "help": "also write the figures to FILE as JSON"},
    "--svg": {**_FILE, "help": "also draw a chart to FILE as SVG"},
    "--report": {
        **_FILE,
        "help": "also write an HTML page with the figures and charts to FILE",
    },
    "--markdown": {"action": "store_true", "help": "print tables as Markdown"},
}


def add_shared(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add the shared options of these names, in this order."""
    for name in names:
        parser.add_argument(name, **_SHARED[name])


def add_choices(
    parser: argparse._ActionsContainer, name: str, choices: Iterable[str], default: str = "all"
) -> None:
    """Add the option `name`, which selects one of `choices` each time that it is given."""
    parser.add_argument(
        name,
        choices=choices,
        action="append",
        help=f"use only this one; may be given several times (default: {default})",
    )


def count(text: str) -> int:
    """Convert an argument that is 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count; use 1 or more")
    return int(text)


def positive(text: str) -> float:
    """Convert an argument that is a number above 0, and no infinity."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def counts(text: str) -> tuple[int, ...]:
    """Convert a list of counts with commas, and drop repeated ones."""
    return tuple(dict.fromkeys(count(part) for part in text.split(",")))


def size(text: str) -> int:
    """Convert a number of bytes such as 64K."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def sizes(text: str) -> tuple[int, ...]:
    """Convert a list of sizes with commas, and drop repeated ones."""
    found = tuple(dict.fromkeys(size(part) for part in text.split(",") if part))
    if not found:
        raise argparse.ArgumentTypeError("no size; use one or more, as 4K,1M")
    return found
