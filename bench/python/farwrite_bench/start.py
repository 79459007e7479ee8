"""``bench start``: how long imports, helps, ``farwrite run`` and the plug-in's load take."""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table, marked, span
from farwrite_bench.harness.option import rounds
from farwrite_bench.ratio import digits
from farwrite_bench.report.parts import Facts, Row

COMMAND = "import sys; from farwrite.cli import main; sys.exit(main())"
"""What the installed script ``farwrite`` does."""
LOAD = """
import time
import tensorflow
began = time.perf_counter()
import farwrite.tensorflow
print(time.perf_counter() - began)
"""


@dataclass(frozen=True)
class Case:
    """A program to start, and what its time is compared with."""

    name: str
    arguments: Sequence[str]
    """Of Python, or the words of another program if `python` is False."""
    beside: str = ""
    """The case whose time in the same round is taken off."""
    target: float | None = None
    """The largest number of seconds, of what is left."""
    status: int = 0
    python: bool = True
    prints: bool = False
    """Whether the program prints its seconds; otherwise its whole run is timed."""

    def command(self) -> list[str]:
        """Return the command line."""
        return [*([sys.executable] if self.python else []), *self.arguments]


def _farwrite(words: str, target: float, status: int = 0) -> Case:
    return Case(f"farwrite {words}", ("-c", COMMAND, *words.split()), "", target, status)


HELP, IMPORT, RUN, PLUGIN = 0.15, 0.06, 0.3, 0.3
CASES = (
    Case("import numpy", ("-c", "import numpy")),
    Case("import farwrite", ("-c", "import farwrite"), "import numpy", IMPORT),
    Case("farwrite.Device", ("-c", "import farwrite; farwrite.Device"), "import numpy", IMPORT),
    _farwrite("--help", HELP),
    *(
        _farwrite(f"{command} --help", HELP)
        for command in ("info", "config", "options", "tensorflow", "run", "box", "bench", "report")
    ),
    _farwrite("rum", HELP, status=2),
    Case("true", ("true",), python=False),
    Case("farwrite run -- true", ("-c", COMMAND, "run", "--", "true"), "true", RUN),
)
TENSORFLOW = Case("import farwrite.tensorflow", ("-c", LOAD), "", PLUGIN, prints=True)


@dataclass(frozen=True)
class StartPlan:
    """What to start, and how often."""

    rounds: int
    cases: Sequence[Case]


def seconds(case: Case) -> float:
    """Run a program once.

    Raises
    ------
    FailedPrecondition
        If its exit status is not the expected one.
    """
    began = time.perf_counter()
    ended = subprocess.run(
        case.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    took = time.perf_counter() - began
    if ended.returncode != case.status:
        raise FailedPrecondition(
            f"bench start: {case.name} ended with status {ended.returncode}: {ended.stderr[-300:]}"
        )
    return float(ended.stdout) if case.prints else took


def measure(plan: StartPlan, progress: Progress, logs: Path) -> Facts:
    """Start every program once in each round, in turn, after one round that is not counted."""
    failed: dict[str, str] = {}
    for case in plan.cases:
        with noting(failed, case.name):
            seconds(case)  # reads its files, and compiles its modules and the plug-in
    took: dict[str, list[float]] = {case.name: [] for case in plan.cases}
    for number in range(plan.rounds):
        progress(number / plan.rounds, f"round {number + 1}")
        for case in plan.cases:
            if case.name not in failed:
                with noting(failed, case.name):
                    took[case.name].append(seconds(case))
    for case in plan.cases:
        if case.beside in failed:
            failed.setdefault(case.name, f"the program beside it, {case.beside}, failed")
    return {
        "rows": [
            {"start": case.name, "error": failed[case.name]}
            if case.name in failed
            else _row(case, took)
            for case in plan.cases
        ]
    }


def _row(case: Case, took: dict[str, list[float]]) -> Row:
    mine = took[case.name]
    beside = took[case.beside] if case.beside else [0.0] * len(mine)
    added = statistics.median(one - other for one, other in zip(mine, beside, strict=True))
    return {
        "start": case.name,
        "way": "limit" if case.target is None else "farwrite",
        "seconds": digits(statistics.median(mine)),
        "rounds_s": [digits(one) for one in mine],
        "beside": case.beside,
        "added_s": digits(added),
        "target": None if case.target is None else f"<={case.target:g}",
        "met": None if case.target is None else added <= case.target,
    }


def _plan(rounds: int) -> StartPlan:
    found = importlib.util.find_spec("tensorflow") is not None
    return StartPlan(rounds, (*CASES, TENSORFLOW) if found else CASES)


def _notes(plan: StartPlan) -> list[str]:
    notes = [
        "Each round starts every program once, in turn, from files that are in the page cache;"
        " another process on the same processors adds to every time.",
        "added: the median over the rounds of the time less that of the program beside it.",
    ]
    if TENSORFLOW in plan.cases:
        what = "its time from the import of TensorFlow to the loaded plug-in, which is compiled"
        return [*notes, f"{TENSORFLOW.name}: {what}."]
    return [*notes, f"{TENSORFLOW.name} was left out, because TensorFlow is not installed."]


BENCHMARK = Benchmark(
    name="start",
    description="Start small programs: the import of Farwrite beside that of NumPy, the help of"
    " commands, a wrong command, a command that does nothing under farwrite run, and the load of"
    " the TensorFlow plug-in.",
    title="Start: imports and commands",
    options=(rounds(15, 2),),
    plan=lambda arguments, _: _plan(arguments.rounds),
    measure=measure,
    summary=lambda plan: f"{plan.rounds} rounds",
    settings=lambda plan: {"rounds": plan.rounds},
    notes=_notes,
    seconds=lambda plan: plan.rounds * 8.0,
    tables=(
        Table(
            (
                Column("start of", "start"),
                Column("s, median", "seconds", ".3f"),
                span("s, lowest to highest", "rounds_s", ".3f"),
                Column("beside", lambda row: row["beside"] or None),
                Column("added s", "added_s", ".3f"),
                Column("target", lambda row: marked(row["target"], row["met"])),
            ),
        ),
    ),
    charts=(
        Bars(
            "Time to start and end",
            lambda row: row["start"],
            "seconds",
            "s",
            rounds="rounds_s",
            names={"limit": "without Farwrite", "farwrite": "with Farwrite"},
        ),
    ),
)
