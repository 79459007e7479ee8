"""``bench calls``: the calls, their times, and the instructions that they take."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench import _native
from farwrite_bench.calls.threads import Threads
from farwrite_bench.calls.world import World
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table, marked, span
from farwrite_bench.harness.option import Option, rounds
from farwrite_bench.ratio import digits
from farwrite_bench.report.parts import Facts, Row

CALLS = {
    "write": 2,
    "read": 2,
    "notify and try": 3,
    "write and wait": 3,
    "send and wait": 3,
    "static tensor": 3,
    "dynamic tensor": 3,
}
"""How many calls a round of each name makes."""
TARGET_US = 1.0
"""What a call from Python may cost more than one from C++."""
THREAD_BYTES = (8, 4 << 10, 1 << 20)
"""What threads write at a time."""
TARGET_RATIO = 1.8
"""What two threads on two channels move at least, as a multiple of what one moves."""
WARM_UP = 100
"""Rounds before the first that counts: the first tensor makes the memory that all are sent from."""
BATCH_SECONDS = 0.05
"""About how long one batch of rounds takes."""
FEWER, MORE = 100, 1100
"""Rounds under callgrind: the difference has no start of a process in it."""


@dataclass(frozen=True)
class CallsPlan:
    """How often to measure."""

    rounds: int
    valgrind: str | None
    """The program that counts instructions; None to count none."""


def measure(plan: CallsPlan, progress: Progress, logs: Path) -> Iterator[Facts]:
    """Time each call from both languages in turn, then count instructions."""
    native = _native.Calls()
    with World() as world:
        timed: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in CALLS}
        ways = (world.seconds, native.seconds)
        batches = {name: _batch(ways, name) for name in CALLS}
        for number in range(plan.rounds):
            progress(number / plan.rounds, f"round {number + 1}")
            for name, times in batches.items():
                for way, took in zip(ways, timed[name], strict=True):
                    took.append(way(name, times) / times * 1e6)
        rows = [_row(name, *timed[name]) for name in CALLS]
    yield {"rows": rows}
    threads: list[Row] = []
    failed: dict[str, str] = {}
    with noting(failed, "two threads"):
        for thread_row in _thread_rows(plan.rounds, progress):
            threads.append(thread_row)
    without = [{"call": key, "error": why} for key, why in failed.items()]
    yield {"rows": [*rows, *without], "threads": threads}
    if plan.valgrind is None:
        return
    for number, row in enumerate(rows):
        call = row["call"]
        progress(number / len(rows), f"instructions of {call}")
        with noting(failed, f"{call}, instructions"):
            row["instructions"] = _instructions(plan.valgrind, call, logs)
        without = [{"call": key, "error": why} for key, why in failed.items()]
        yield {"rows": [*rows, *without], "threads": threads}


def _batch(ways: Sequence[Callable[[str, int], float]], name: str) -> int:
    for way in ways:
        way(name, WARM_UP)
    return max(WARM_UP, int(BATCH_SECONDS / ways[0](name, WARM_UP) * WARM_UP))


def _row(name: str, python: list[float], native: list[float]) -> Row:
    added = statistics.median(one - other for one, other in zip(python, native, strict=True))
    target = CALLS[name] * TARGET_US
    return {
        "call": name,
        "calls": CALLS[name],
        "python_us": digits(statistics.median(python)),
        "rounds_us": [digits(each) for each in python],
        "native_us": digits(statistics.median(native)),
        "added_us": digits(added),
        "target": f"<={target:g}",
        "met": added <= target,
        "instructions": None,
    }


def _thread_rows(rounds: int, progress: Progress) -> Iterator[Row]:
    """Time writes of one thread and of two, from both languages in turn."""
    largest = max(THREAD_BYTES)
    native = _native.Threads(2, largest)
    with Threads(2, largest) as python:
        for part, nbytes in enumerate(THREAD_BYTES):
            progress(part / len(THREAD_BYTES), f"two threads, {nbytes} bytes")
            ways = {"Python": python.seconds, "C++": native.seconds}
            took: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            batches = {
                way: max(WARM_UP, int(BATCH_SECONDS / seconds(nbytes, WARM_UP, 1) * WARM_UP))
                for way, seconds in ways.items()
            }
            for _ in range(rounds):
                for way, seconds in ways.items():
                    one, two = (seconds(nbytes, batches[way], count) for count in (1, 2))
                    took[way].append((one / batches[way] * 1e6, two / batches[way] * 1e6))
            for way, times in took.items():
                yield _thread_row(nbytes, way, times)


def _thread_row(nbytes: int, way: str, times: Sequence[tuple[float, float]]) -> Row:
    ratios = [digits(2 * one / two) for one, two in times]
    wanted = way == "C++" or not gil_enabled()
    ratio = statistics.median(ratios)
    return {
        "bytes": nbytes,
        "way": way,
        "one_us": digits(statistics.median(one for one, _ in times)),
        "two_us": digits(statistics.median(two for _, two in times)),
        "ratio": ratio,
        "rounds_ratio": ratios,
        "target": f">={TARGET_RATIO:g}" if wanted else None,
        "met": ratio >= TARGET_RATIO if wanted else None,
    }


def gil_enabled() -> bool:
    """Whether threads of this Python take turns."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _bars(facts: Facts) -> list[Row]:
    return [
        {"call": row["call"], "way": way, "us": row[key]}
        for row in facts["rows"]
        for way, key in (("Python", "python_us"), ("C++", "native_us"))
    ]


def _instructions(valgrind: str, name: str, logs: Path) -> int:
    """Count what one round takes in all threads, by callgrind.

    Raises
    ------
    FailedPrecondition
        If callgrind fails.
    """
    counts = []
    for times in (FEWER, MORE):
        log = logs / f"callgrind-{times}.log"
        ended = subprocess.run(
            [
                *(valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"),
                *(f"--log-file={log}", sys.executable, "-m", "farwrite_bench.calls.world"),
                *(name, str(times)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        found = re.search(r"Collected : (\d+)", said)
        if ended.returncode != 0 or found is None:
            raise FailedPrecondition(
                f"bench calls: callgrind ended with status {ended.returncode} and counted nothing:"
                f" {(ended.stderr or said)[-300:]}"
            )
        counts.append(int(found[1]))
    return round((counts[1] - counts[0]) / (MORE - FEWER))


def _plan(rounds: int, instructions: bool) -> CallsPlan:
    valgrind = shutil.which("valgrind") if instructions else None
    if instructions and valgrind is None:
        raise FailedPrecondition(
            "bench calls: there is no valgrind, which counts instructions; on Debian, `apt install"
            " valgrind`, or leave --instructions out"
        )
    return CallsPlan(rounds, valgrind)


NOTES = (
    "Both ends of the channel are in one thread of one process, over shm: no wake-up is in a time."
    " A round makes every call with its `wait`, 8 bytes each.",
    "added: the median over the rounds of the time from Python less that from C++.",
    "instructions: of all threads of the process, from Python, by callgrind; the machine's load and"
    " clock do not change them.",
    "two threads: each thread writes on its own channel and waits for each write. The channels"
    " connect the same two devices. times: what two threads move as a multiple of what one thread"
    " moves, the median over the rounds. Threads of a Python with a GIL take turns: no target.",
)

BENCHMARK = Benchmark(
    name="calls",
    description="Make single calls from Python and from C++ in turn: write, read, notification,"
    " message and tensor, with both ends in one thread.",
    title="Calls from Python and from C++",
    options=(
        rounds(15, 2),
        Option("--instructions", "also count the instructions, by valgrind", default=False),
    ),
    plan=lambda arguments, _: _plan(arguments.rounds, arguments.instructions),
    measure=measure,
    summary=lambda plan: f"{plan.rounds} rounds",
    settings=lambda plan: {"rounds": plan.rounds},
    notes=lambda _: NOTES,
    seconds=lambda plan: plan.rounds * 1.0 + (0 if plan.valgrind is None else 200.0),
    tables=(
        Table(
            (
                Column("round", "call"),
                Column("calls", "calls"),
                Column("Python us", "python_us", ".2f"),
                span("us, lowest to highest", "rounds_us", ".2f"),
                Column("C++ us", "native_us", ".2f"),
                Column("added us", "added_us", ".2f"),
                Column("target", lambda row: marked(row["target"], row["met"])),
                Column("instructions", "instructions"),
            ),
        ),
        Table(
            (
                Column("bytes", "bytes"),
                Column("from", "way"),
                Column("us, one thread", "one_us", ".2f"),
                Column("us, two threads", "two_us", ".2f"),
                Column("times", "ratio", ".2f"),
                span("times, lowest to highest", "rounds_ratio", ".2f"),
                Column("target", lambda row: marked(row["target"], row["met"])),
            ),
            title="Two threads on two channels",
            rows=lambda facts: facts.get("threads", ()),
        ),
    ),
    charts=(
        Bars(
            "Time of a round",
            lambda row: row["call"],
            "us",
            "us",
            colours={"Python": "farwrite", "C++": "limit"},
            rows=_bars,
        ),
    ),
)
