"""The command ``farwrite report``: one page of all results of benchmarks in a folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from farwrite.cli_parser import writable_file
from farwrite.errors import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]

PAGE = "report.html"


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``report``."""
    parser = subparsers.add_parser(
        "report",
        help="make one HTML page of the results of benchmarks",
        description="Make one HTML page, which needs no other file, of all JSON files that farwrite"
        " bench wrote into a folder: figures, tables, what the papers measured, and where Farwrite"
        " does not help.",
        epilog="Example: farwrite report results",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the JSON files")
    parser.add_argument(
        "--output",
        type=writable_file,
        metavar="FILE",
        help=f"write the page to FILE (default: DIR/{PAGE})",
    )
    parser.add_argument(
        "--svg", type=writable_file, metavar="FILE", help="also draw the main figure to FILE as SVG"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the page. Files that cannot be shown are named on stderr and on the page."""
    from farwrite_bench.figures import write
    from farwrite_bench.report.files import read_folder
    from farwrite_bench.report.results_page import picture, results_page

    for option, path in (("--output", arguments.output), ("--svg", arguments.svg)):
        if path is not None and path.suffix == ".json" and path.is_file():
            raise InvalidArgument(
                f"report: {option} {path} would replace a file of results; name another file"
            )
    runs, left_out = read_folder(arguments.folder)
    for each in left_out:
        print(
            f"farwrite report: left out {arguments.folder / each.file}: {each.why}", file=sys.stderr
        )
    if not runs:
        raise FailedPrecondition(
            f"report: no file in {arguments.folder} is a whole result of farwrite bench; run a"
            " benchmark again with --json"
        )
    drawn = None if arguments.svg is None else picture(runs)
    if arguments.svg is not None and drawn is None:
        raise FailedPrecondition(
            f"report: no file in {arguments.folder} has a figure for --svg; add the JSON file of a"
            " benchmark, such as farwrite bench tensor"
        )
    output = arguments.output or arguments.folder / PAGE
    write(output, results_page(runs, left_out))
    print(output)
    if drawn is not None:
        write(arguments.svg, drawn)
    return 0
