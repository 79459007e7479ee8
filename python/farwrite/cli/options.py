"""``farwrite options``: every option, its environment variable, type, default and meaning."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from farwrite.arguments import did_you_mean
from farwrite.options.table import HEADERS, OPTIONS, rows

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

_MEANING_WIDTH = 92
_SECRET = {"FARWRITE_TOKEN"}


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``options``."""
    parser = subparsers.add_parser(
        "options",
        help="list every option and its environment variable",
        description="Print every option: keyword or command-line option, environment variable,"
        " where it works, type, default and meaning. Then print the options that the environment"
        " sets.",
        epilog="Example: farwrite options --json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the table or the JSON list."""
    if arguments.json:
        print(json.dumps([dict(zip(HEADERS, row, strict=True)) for row in rows()], indent=2))
    else:
        print("\n".join(table()))
    return 0


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    for name, variable, where, kind, default, meaning in rows():
        names = "  ".join(filter(None, (name, variable)))
        yield f"{names}"
        yield f"    {where}; {kind}; default: {default}"
        yield from textwrap.wrap(
            meaning, _MEANING_WIDTH, initial_indent="    ", subsequent_indent="    "
        )
    yield ""
    yield "Set in this environment:"
    found = False
    for option in OPTIONS:
        value = os.environ.get(option.variable, "") if option.variable else ""
        if value:
            found = True
            yield f"    {option.variable}={'***' if option.variable in _SECRET else value}"
    if not found:
        yield "    none"
    known = [option.variable for option in OPTIONS if option.variable]
    for name in sorted(os.environ):
        if name.startswith("FARWRITE_") and name not in known:
            near = did_you_mean(name, known, alike=0.8)
            if near:  # others are set by commands for the processes that they start
                yield f"    {name} is no option{near}"
