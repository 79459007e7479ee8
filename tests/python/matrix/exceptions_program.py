"""An exception at every place in every call: exceptions_program.py FABRIC [PART [PLACE]].

A place is one where Python runs signal handlers: see `interrupted.Places`. Each call is made
again and again, and an exception is raised at its first place in the package, then at its second,
until it ends by itself. PART of a name, such as Segment.write, makes those calls alone, and PLACE
that place alone. TEST_SHARE=1/10 takes one place in ten, which TEST_SEED draws. Prints a line for
each place that left something behind, or "survivor fine" if there was none.
`test_matrix_exceptions.py` runs it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any

from interrupted import Places
from matrix import calls, command_line, program, world
from matrix.calls import WORLD
from matrix.counters import growth, posted, settled
from matrix.kinds import LATE, own
from matrix.made import HANG, Made
from matrix.made import calls as calls_of_the_table
from matrix.world import the_world

HUNG = 3000
"""Seconds after which the program shows where it is, and ends."""
LONG = 20.0
"""Seconds for calls that end by themselves, so that a busy machine does not end them."""
SOON = 0.01
"""The limit of calls for which there is nothing, so that many of them take no time."""
TIDIED = 1.5
"""Seconds without a change before a count: a box joins threads of clients once a second."""
CHANGED = ("Segment", "Posted")


def rows() -> Iterator[Made]:
    """The calls of the table that leave their handle open, and one that opens and closes more."""
    yield from calls_of_the_table(closing=False)
    metrics = own(lambda m: m.Device(metrics="127.0.0.1:0").close())
    yield Made("farwrite", "Device with metrics", metrics)


def descriptors() -> set[tuple[str, str]]:
    """Return the open descriptors, and what each is of."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the folder itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


class Interrupted:
    """A call of the table, made with an exception at each of its places."""

    def __init__(self, made: Made, fabric: str) -> None:
        self.name = made.name
        self._made, self._fabric = made, fabric
        self._late = LATE in made.row.allowed("none")
        self._ends = made.leaves
        self._dropped: list[Any] = []
        self.interrupted = 0
        """Exceptions that were raised in the call."""

    def run(self, stop_at: int = 0) -> tuple[Made, int]:
        """Make the call, and return what came of it and its number of places."""
        made = self._made.again()
        calls.SHORT = SOON if self._late else LONG
        signal.setitimer(signal.ITIMER_REAL, HANG)
        with Places(stop_at) as places:
            made.run()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return made, places.executed

    def problems(self, only: int) -> Iterator[str]:
        """Interrupt the call, and say what is wrong afterwards."""
        self.run()  # what a first call makes is there from now on
        WORLD["Segment"].fill(1)
        at_first, without = posted(), settled(WORLD.get("kept"))
        _, count = self.run()
        whole, then = growth(at_first), bytes(WORLD["Segment"].read())
        before = settled(without)
        had = descriptors()
        kept = {name for name in before if before[name] != without[name]}  # such as a tensor sent
        places = command_line.drawn(range(1, count + 1), f"{self._fabric} {self.name}")
        for place in [only] if only else places:
            for problem in self._interrupted(place, whole, then):
                yield f"{self.name} place {place}: {problem}"
            if self._ends:
                break  # a call that fails ends the group
        else:
            self.run()
        after = WORLD["kept"] = settled(before, TIDIED)
        left = (
            {}
            if self._ends
            else {
                name: after[name] - before[name]
                for name in before
                if after[name] > before[name] and name not in kept
            }
        )
        if left:
            yield f"{self.name}: left behind {left}, new: {sorted(descriptors() - had)}"

    def _interrupted(self, place: int, whole: dict[str, int], then: bytes) -> Iterator[str]:
        WORLD["Segment"].fill(1)
        at_first, value = posted(), bytes(WORLD["Segment"].read())
        self._dropped.clear()
        made, executed = self.run(place)
        self.interrupted += executed >= place
        if executed >= place and made.outcome != "raw InterruptError" and not self._dropped:
            yield f"the exception is lost: {made.outcome} ({made.says})"
        twice = {name: n for name, n in growth(at_first).items() if n > max(whole.get(name, n), 0)}
        if twice:
            yield f"posted {twice}, and a whole call posts {whole}"
        if self._made.owner in CHANGED and bytes(WORLD["Segment"].read()) not in (value, then):
            yield f"the segment is {WORLD['Segment'].read()}"
        if not (self._late or self._ends):
            made, _ = self.run()
            problem = made.problem("none", self._fabric)
            if problem is not None:
                yield f"the next call: {problem}"

    def dropped(self, report: Any) -> None:
        """Note what was raised where nothing can catch it: in a callback."""
        self._dropped.append(report.exc_type)


def main(fabric: str = "", part: str = "", place: str = "0") -> int:
    faulthandler.enable()
    command_line.check(fabric, program.FABRICS, "fabric")
    chosen = [made for made in rows() if part in made.name and not made.waits("none", fabric)]
    if not chosen:
        command_line.refuse(
            f"no call's name contains '{part}', or it may wait for ever; "
            "tests/python/matrix/calls.py and functions.py name the calls, as in Segment.write"
        )
    problems = command_line.Problems()
    interrupted = 0
    faulthandler.dump_traceback_later(HUNG, exit=True)
    signal.signal(signal.SIGALRM, program.interrupt)
    world.SHORT = LONG
    with the_world(fabric):
        WORLD["process"] = None  # a coroutine runs in this thread, too
        for made in chosen:
            call = Interrupted(made, fabric)
            command_line.under_way(fabric, call.name)
            sys.unraisablehook = call.dropped
            for problem in call.problems(int(place)):
                found = re.match(re.escape(call.name) + r" place (\d+):", problem)
                problems.add(problem, fabric, call.name, *(found.groups() if found else ()))
            interrupted += call.interrupted
        sys.unraisablehook = sys.__unraisablehook__
        WORLD["process"] = os.getpid()
    if place != "0" and not interrupted:
        command_line.refuse(
            f"no call of '{part}' has a place {place}; without a place all are made"
        )
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
