"""The command ``farwrite reproduce``: its options, and its run over all parts."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from farwrite.errors import FailedPrecondition
from farwrite_bench.options import add_choices
from farwrite_bench.report import command as report
from farwrite_experiments.reproduce.parts import PARTS, Part, command, expected
from farwrite_experiments.reproduce.program import run_to_end

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]

OUTPUT, QUICK_OUTPUT = Path("out/reproduce"), Path("out/reproduce-quick")
UNFINISHED = "unfinished"
"""The folder, inside the output, for the file of the part that runs."""
KIND = ".quick"
"""The file that marks the folder of quick runs."""


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``reproduce``."""
    parser = subparsers.add_parser(
        "reproduce",
        help="run the papers' benchmarks, and make one page of results",
        description="Run all benchmarks in order, each alone on the machine, and make one page of"
        " the results. A later run continues an interrupted one: parts that have finished are"
        " kept. Needs TensorFlow.",
        epilog="Example: farwrite reproduce --quick",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="make short runs, which show that everything works, not how fast Farwrite is",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"folder for the results (default: {OUTPUT}; --quick: {QUICK_OUTPUT})",
    )
    add_choices(parser, "--part", [part.name for part in PARTS])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the parts that have not finished, then make the page.

    Returns
    -------
    int
        1 if a part failed. The others still run; without any result there is no page.
    """
    quick = bool(arguments.quick)
    folder = arguments.output or (QUICK_OUTPUT if quick else OUTPUT)
    _mark(folder, quick=quick)
    chosen = [part for part in PARTS if part.name in (arguments.part or _names(PARTS))]
    waiting = [part for part in chosen if not _result(folder, part).exists()]
    kept = len(chosen) - len(waiting)
    if kept:
        print(f"reproduce: {kept} of {len(chosen)} parts have finished before, in {folder}")
    failed = _run_all(waiting, folder, quick=quick)
    if failed:
        print(
            f"farwrite reproduce: failed, and missing from {folder}: {', '.join(_names(failed))};"
            " run the same farwrite reproduce again, which keeps the parts that have finished",
            file=sys.stderr,
        )
    if _has_results(folder):
        report.run(argparse.Namespace(folder=folder, output=None, svg=folder / "report.svg"))
    return 1 if failed else 0


def _run_all(parts: Sequence[Part], folder: Path, *, quick: bool) -> list[Part]:
    failed = []
    pace = 1.0
    started, planned = time.monotonic(), 0.0
    for number, part in enumerate(parts):
        left = pace * sum(expected(each, quick=quick) for each in parts[number:])
        print(
            f"farwrite reproduce: {number + 1}/{len(parts)} {part.name}, about"
            f" {math.ceil(left / 60)} min left",
            file=sys.stderr,
            flush=True,
        )
        if not _run(part, folder, quick=quick):
            failed.append(part)
        planned += expected(part, quick=quick)
        pace = (time.monotonic() - started) / planned
    return failed


def _run(part: Part, folder: Path, *, quick: bool) -> bool:
    unfinished = folder / UNFINISHED / f"{part.name}.json"
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    words = command(part, quick=quick)
    with (folder / UNFINISHED / f"{part.name}.txt").open("w") as output:
        # The progress goes to the terminal, and the table to a file.
        status = run_to_end(
            [sys.executable, "-m", "farwrite", *words, "--json", str(unfinished)], output
        )
    if status != 0 or not unfinished.exists():
        return False
    unfinished.rename(_result(folder, part))
    return True


def _mark(folder: Path, *, quick: bool) -> None:
    """Mark the folder, so that short and long runs are never mixed.

    Raises
    ------
    FailedPrecondition
        If the folder has results of the other kind.
    """
    mark = folder / KIND
    if _has_results(folder) and mark.exists() != quick:
        kind, other = ("quick", "full") if quick else ("full", "quick")
        raise FailedPrecondition(
            f"reproduce: {folder} has results of a {other} run, which a {kind} run would mix with"
            " its own; name another folder in --output, or delete this one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if quick:
        mark.touch()
    else:
        mark.unlink(missing_ok=True)


def _has_results(folder: Path) -> bool:
    return any(_result(folder, part).exists() for part in PARTS)


def _result(folder: Path, part: Part) -> Path:
    return folder / f"{part.name}.json"


def _names(parts: Sequence[Part]) -> list[str]:
    return [part.name for part in parts]
