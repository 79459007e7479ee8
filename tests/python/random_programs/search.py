"""Runs random programs of new seeds for a few minutes, and makes those that fail smaller.

    search.py [--minutes 40] [--worlds WORLD...]
    search.py --repeat 'boxes tcp 7 create:31 write:4'

TEST_SEED is the first seed, by default a new one. Prints each program that fails with the line that
repeats it, and at last the pairs of a step and the fault before it that no program reached. The
exit status is 1 if a program failed. Each batch of programs runs in a process of its own, which
also looks for descriptors, threads and mapped memory that are left.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import held
from random_programs.program import (
    BUILT_WORLDS,
    FABRICS,
    WORLDS,
    Program,
    Reached,
    command,
    draw_program,
    run,
    smaller,
    steps_of,
    world_of,
)

BATCH = 12
MOST_FAILURES = 10
TRIES = 80
"""Programs that are run to make one smaller."""
SHRINKING = 300.0
"""Seconds after which a program is made no smaller."""
LONG = 150
"""Seconds after which a program counts as one that hangs."""


def repeat(texts: list[str]) -> None:
    """Run programs; a line of JSON says what each has reached."""
    before = None
    for text in texts:
        reached: Reached = Counter()
        faulthandler.dump_traceback_later(LONG, exit=True)
        run(Program.parse(text), reached)
        faulthandler.cancel_dump_traceback_later()
        if before is None:
            before = held.settled()
        elif left := held.not_given_back(before):
            raise AssertionError(left)
        print(json.dumps([[*key, count] for key, count in reached.items()]), flush=True)


def started(texts: list[str]) -> tuple[list[str], str]:
    """Run programs in a process; return its lines, one for each that went well, and its errors."""
    arguments = [sys.executable, "-X", "faulthandler", __file__]
    for text in texts:
        arguments += ["--repeat", text]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(arguments, stdout=output, stderr=errors, start_new_session=True)
        try:
            status = process.wait()
        finally:  # even after Ctrl-C
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # a peer that is stopped would stay for ever
            process.wait()
        for file in (output, errors):
            file.seek(0)
        lines = [line for line in output.read().splitlines() if line.startswith("[")]
        said = errors.read()
    return lines, said if status >= 0 else f"{said}\nkilled by signal {-status}"


def fails(program: Program) -> bool:
    """Whether a program fails, at one of two tries."""
    return any(not started([str(program)])[0] for _ in range(2))


def fails_in(seconds: float) -> Callable[[Program], bool]:
    """Return `fails`, which prints its progress. When the time is over no program fails."""
    give_up = time.monotonic() + seconds

    def check(program: Program) -> bool:
        if time.monotonic() >= give_up:
            return False
        print(f"making it smaller: {len(program.steps)} steps", flush=True)
        return fails(program)

    return check


def search(seconds: float, seed: int, worlds: list[str]) -> int:
    """Run programs until the time is over; return how many failed."""
    give_up = time.monotonic() + seconds
    reached: Reached = Counter()
    ran = failures = 0
    while time.monotonic() < give_up and failures < MOST_FAILURES:
        batch = []
        for _ in range(BATCH):
            draw = random.Random(seed)
            batch.append((seed, draw_program(draw.choice(worlds), draw.choice(FABRICS), seed)))
            seed += 1
        while batch and time.monotonic() < give_up:
            lines, errors = started([str(program) for _, program in batch])
            for line in lines:
                for world, name, last, count in json.loads(line):
                    reached[world, name, last] += count
            ran += len(lines)
            batch = batch[len(lines) :]
            if batch:
                failures += 1
                (failed, program), *batch = batch
                print(f"seed {failed} failed:\n{errors}", flush=True)
                least = smaller(program, fails_in(SHRINKING), TRIES)
                print(f"made smaller, {len(least.steps)} steps: {command(least)}", flush=True)
    print(f"{ran} programs went well and {failures} failed; the next seed is {seed}")
    print("\n".join(never_reached(reached, worlds)))
    return failures


def never_reached(reached: Reached, worlds: list[str]) -> list[str]:
    """A table of the pairs of a step and the fault before it that no program reached."""
    lines = ["| world | step | never after |", "|---|---|---|"]
    for world in worlds:
        steps = steps_of(world)
        faults = ["none", *(name for name in steps if steps[name].is_fault)]
        for name in steps:
            missing = [last for last in faults if not reached[world, name, last]]
            if missing:
                lines.append(f"| {world} | {name} | {', '.join(missing)} |")
    return lines if len(lines) > 2 else ["every step was made after every fault"]


def main() -> int:
    about, _, details = str(__doc__).split("\n\n", 2)
    parser = argparse.ArgumentParser(
        description=about, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=40)
    built = [name for name in BUILT_WORLDS if world_of(name).is_built()]
    worlds = [*WORLDS, *built]
    parser.add_argument("--worlds", nargs="+", default=worlds, choices=(*WORLDS, *BUILT_WORLDS))
    parser.add_argument("--repeat", action="append", metavar="PROGRAM", help="run this program")
    given = parser.parse_args()
    if given.repeat:
        repeat(given.repeat)
        return 0
    seed = int(os.environ.get("TEST_SEED", int(time.time()) * 1000))
    print(f"random programs for {given.minutes:g} minutes, from seed {seed} on", flush=True)
    for name, needed in BUILT_WORLDS.items():
        if name not in built:
            print(f"left out: {name}, which needs: {needed}", flush=True)
    return int(search(60 * given.minutes, seed, given.worlds) > 0)


if __name__ == "__main__":
    sys.exit(main())
