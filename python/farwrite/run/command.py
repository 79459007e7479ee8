"""The subcommand ``farwrite run``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.errors import FailedPrecondition, InvalidArgument, PermissionDenied
from farwrite.plugin.build import ensure_built
from farwrite.plugin.wheel import find_wheel
from farwrite.run.child import Run, run_command
from farwrite.run.page import html
from farwrite.run.report import as_json, table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``run``."""
    parser = subparsers.add_parser(
        "run",
        help="run an unmodified distributed TensorFlow program on Farwrite",
        usage="farwrite run [options] -- command [argument ...]",
        description="Run a program that says plain gRPC on Farwrite. Its Python processes, and"
        " those they start, load the plug-in right after they import TensorFlow. A summary goes to"
        " standard error. Exit status: the command's.",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="run it twice, on stock gRPC and then on Farwrite, and print both",
    )
    parser.add_argument(
        "--allocation",
        choices=("unified", "traced", "off"),
        help="tensors in registered memory (unified, the default), those that are sent (traced), or"
        " staged by a copy (off)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="also write a page with figures and edges there"
    )
    trace.add_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command, once or twice, and report."""
    command: list[str] = arguments.command
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise InvalidArgument("farwrite run: name a command: farwrite run -- python train.py")
    _build_first()
    options = {"FARWRITE_TF_ALLOCATION": arguments.allocation} if arguments.allocation else {}
    runs: list[Run] = []
    for stock in (True, False) if arguments.compare else (False,):
        if arguments.compare:
            print(f"farwrite run: {'stock gRPC' if stock else 'Farwrite'} ...", file=sys.stderr)
        runs.append(run_command(command, stock=stock, options=options, look=arguments.compare))
        if runs[-1].exit_status != 0:
            break  # nothing to compare with
    # A comparison is asked for; after a plain run the program's own output stays alone in stdout.
    print("\n".join(table(runs)), file=sys.stdout if arguments.compare else sys.stderr, flush=True)
    if arguments.json is not None:
        _write(arguments.json, json.dumps(as_json(command, runs), indent=2) + "\n")
    if arguments.report is not None:
        _write(arguments.report, html(command, runs))
    return runs[-1].exit_status


def _build_first() -> None:
    # So that what is missing is said before anything runs, and compiling is not in the figures.
    # The command's Python may be another one, with a TensorFlow that is not seen from here.
    try:
        find_wheel()
    except FailedPrecondition:
        return
    ensure_built()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise PermissionDenied(f"farwrite run: cannot write {path}: {error.strerror}") from error
