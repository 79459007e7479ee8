"""``farwrite reproduce``: the papers' experiments one after the other, and one page of results."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.child import receive_at_parents_end
from farwrite_bench.options import add_choices
from farwrite_bench.report import command as report
from farwrite_bench.report.parts import Facts, failed_rows

if TYPE_CHECKING:
    from typing import Any

    Subparsers = argparse._SubParsersAction[Any]

OUTPUT, QUICK_OUTPUT = Path("out/reproduce"), Path("out/reproduce-quick")
UNFINISHED = "unfinished"
"""The folder, inside the output, for the file of the part that runs."""
KIND = ".quick"
"""The file that marks the folder of quick runs."""
CLEAN_UP_SECONDS = 30.0
"""How long an interrupted program may take to end its processes and to remove its files."""


@dataclass(frozen=True)
class Part:
    """One benchmark. Its results are in ``NAME.json``."""

    name: str
    seconds: int
    """About how long it takes on two processors."""
    quick_seconds: int
    words: str
    """The words after ``farwrite``."""
    quick: str = "--quick"
    """The words that a quick run adds."""

    def command(self, *, quick: bool) -> list[str]:
        """Return the words after ``farwrite``."""
        return f"{self.words} {self.quick if quick else ''}".split()

    def expected(self, *, quick: bool) -> int:
        """Return about how many seconds it takes."""
        return self.quick_seconds if quick else self.seconds

    def result(self, folder: Path) -> Path:
        """Return the file of its results."""
        return folder / f"{self.name}.json"


_THREE = "--model vgg16 --model inception_v3 --model lstm"
_BOTH = "--transport rpc-over-fabric --transport farwrite"
_MNIST = "--model mnist_mlp --workers 1,2,3,4 --fabric shm"
_BATCHES = (
    "--model alexnet --model vgg16 --model fcn5 --batch 1,8,32,128 --rounds 3 --transport grpc"
    " --transport farwrite --fabric shm"
)
PARTS = (
    Part("memory", 40, 5, "bench memory"),
    Part("p2p", 300, 10, "bench p2p"),
    Part("peers", 420, 60, "bench peers"),
    Part("tensor", 360, 50, "bench tensor"),
    Part("tensor-tcp", 420, 50, "bench tensor --fabric tcp"),
    Part("step", 200, 35, "bench step"),
    Part("feed", 130, 20, "bench feed"),
    Part("ablations", 240, 40, "bench ablations"),
    Part("collective", 40, 25, "bench collective"),
    Part("assign", 90, 20, "bench assign"),
    Part("sizes", 30, 30, "bench sizes", ""),
    Part("train", 600, 130, "bench train", f"--quick --fabric shm {_THREE}"),
    Part("train-tcp", 600, 45, "bench train --fabric tcp", f"--quick --model fcn5 {_BOTH}"),
    Part("train-mnist", 240, 50, f"bench train {_MNIST}", "--quick --workers 1,2"),
    Part("train-mirrored", 150, 100, "bench train --model vgg16 --mode mirrored --fabric shm"),
    Part("train-batches", 480, 120, f"bench train {_BATCHES}", "--quick --batch 1,32"),
    Part("convergence", 540, 90, "bench convergence"),
    Part("scaling", 480, 60, "bench scaling"),
    Part("plan", 60, 30, "plan --calibrate"),
    Part("plan-published", 5, 30, "plan --published"),
    Part("box", 540, 30, "bench box"),
    Part("grpc", 520, 120, "bench grpc"),
)


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
    chosen = [part for part in PARTS if not arguments.part or part.name in arguments.part]
    waiting = [part for part in chosen if not _is_whole(part.result(folder))]
    kept = len(chosen) - len(waiting)
    if kept:
        print(f"reproduce: {kept} of {len(chosen)} parts have finished before, in {folder}")
    failed = _run_all(waiting, folder, quick=quick)
    if failed:
        print(
            f"farwrite reproduce: failed, and missing from {folder} in whole or in part:"
            f" {', '.join(failed)}; run the same farwrite reproduce again, which keeps the parts"
            " that have finished",
            file=sys.stderr,
        )
    if _has_results(folder):
        report.run(argparse.Namespace(folder=folder, output=None, svg=folder / "report.svg"))
    return 1 if failed else 0


def _run_all(parts: Sequence[Part], folder: Path, *, quick: bool) -> list[str]:
    """Run parts, and return the names of those that failed."""
    failed = []
    pace = 1.0
    started, planned = time.monotonic(), 0.0
    for number, part in enumerate(parts):
        left = pace * sum(each.expected(quick=quick) for each in parts[number:])
        print(
            f"farwrite reproduce: {number + 1}/{len(parts)} {part.name}, about"
            f" {math.ceil(left / 60)} min left",
            file=sys.stderr,
            flush=True,
        )
        if not _run(part, folder, quick=quick):
            failed.append(part.name)
        planned += part.expected(quick=quick)
        pace = (time.monotonic() - started) / planned
    return failed


def _run(part: Part, folder: Path, *, quick: bool) -> bool:
    unfinished = part.result(folder / UNFINISHED)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    if not _is_interrupted(unfinished):  # such a run is continued, where its benchmark can
        unfinished.unlink(missing_ok=True)
    words = [*part.command(quick=quick), "--json", str(unfinished)]
    with unfinished.with_suffix(".txt").open("w") as output:
        # The progress goes to the terminal, and the table to a file.
        status = run_to_end([sys.executable, "-m", "farwrite", *words], output)
    facts = _facts(unfinished)
    explained = status == 0 or failed_rows(facts.get("rows", ()))
    if not facts or _is_interrupted(unfinished) or not explained:
        return False
    unfinished.rename(part.result(folder))
    return status == 0


def _is_interrupted(result: Path) -> bool:
    """Whether a run did not come to its end. Rows of one that did may have failed."""
    return not _facts(result).get("finished", True)


def _is_whole(result: Path) -> bool:
    """Whether there is a result none of whose rows failed."""
    facts = _facts(result)
    return bool(facts) and not failed_rows(facts.get("rows", ()))


def _facts(result: Path) -> Facts:
    """Return what a file holds; nothing if it is missing or cut short."""
    try:
        return dict(json.loads(result.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


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
    return any(part.result(folder).exists() for part in PARTS)


def run_to_end(words: Sequence[str], output: IO[str]) -> int:
    """Run a program that writes to `output`, and return its exit status.

    The program receives one SIGINT if a KeyboardInterrupt ends the wait for it, or if this process
    ends. A terminal's Ctrl-C does not reach it, because it has a session of its own. After a
    KeyboardInterrupt it is killed when it has not ended in `CLEAN_UP_SECONDS`, or at a second
    KeyboardInterrupt.
    """
    program = subprocess.Popen(
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=output,
        start_new_session=True,
        preexec_fn=_prepare,
    )
    try:
        return program.wait()
    except KeyboardInterrupt:
        program.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(CLEAN_UP_SECONDS)
        raise
    finally:
        if program.returncode is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def _prepare() -> None:
    # A shell starts a script's background jobs with SIGINT ignored, which a program inherits.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    receive_at_parents_end(signal.SIGINT)
