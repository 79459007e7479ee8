"""Every call with its n-th call to the system refused: refused_program.py FABRIC POINT [CALL [N]]

POINT is one of `injection.POINTS`; `POINT+` refuses the n-th and all later ones, until the call has
ended, and `far-POINT` refuses it the peer's process. Each call of the table, and each of
`openings.py`, is made with the first one refused, then the second, until it has no further one to
refuse. Each time the call does what it does without a fault, or says what is lacking. Then it is
made without a fault, and works. At last all calls are made with a new peer. With `clock` the wall
clock jumps by hours at every reading, and nothing changes. Several points: with commas between.

Prints a line for each call that did otherwise, or "survivor fine" if none did. CALL may be a
pattern, such as `openings.*`. With TEST_SHARE=3 a call that has more than three to refuse is made
three times, with those that TEST_SEED draws.
"""

from __future__ import annotations

import fnmatch
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

from matrix import openings, program
from matrix.calls import WORLD
from matrix.command_line import SEED, SHARE, check, drawn, refuse, under_way
from matrix.injection import FOR_EVER, POINTS, Strikes, at_each_point
from matrix.kinds import LATE
from matrix.made import CLOSING, HANG, Made, calls
from matrix.world import the_world

MOST = {"waits": 12}
"""How many are tried of the calls to the system that some thread makes without end."""
LARGE = 16 << 10
"""Bytes of an allocation that counts. A known gap: smaller ones, which a system that overcommits
memory does not refuse, end the process in threads of a device and in arguments of bindings."""
TRIES = 3
JUMP = 7200
"""Seconds."""


def all_calls() -> Iterator[Made]:
    """Those of the table and the openings, and last what closes the handles."""
    yield from calls(closing=False)
    for name, row in openings.ROWS.items():
        yield Made("openings", name, row)
    yield from calls(closing=True)


class Refusals(Strikes):
    """Makes calls in one world, with what they call at one point refused."""

    def __init__(self, fabric: str, point: str) -> None:
        super().__init__(fabric, point)
        self.point = point.rstrip("+").removeprefix("far-")
        self.process = os.getpid()
        self.waiting: list[threading.Thread] = []

    def of(self, made: Made) -> Iterator[str]:
        """Make the call with each refusal in turn; what closes its handle, with the first one."""
        if made.entry in CLOSING:
            yield from self.at(made, 1)
            return
        problem, there_are = self.make_in_time(made, FOR_EVER), self.injection.end()
        if problem is not None:
            yield f"with nothing refused: {problem}"
        numbers = range(1, min(there_are, MOST.get(self.point, there_are)) + 1)
        for number in drawn(numbers, f"{self.name} {made.name}"):
            yield from self.at(made, number)

    def at(self, made: Made, number: int) -> Iterator[str]:
        """Make the call with one refusal, and once more without."""
        call = f"{self.fabric} {self.name} {made.name} {number}"
        under_way(call)
        problem = self.make_in_time(made, number)
        where = self.injection.where()
        if problem is not None:
            yield f"refused_program.py {call}: {where} was refused: {problem}"
        if self.injection.struck():
            self.struck += 1
        if self.injection.struck() and made.entry not in CLOSING:
            problem = self.make_in_time(made, FOR_EVER)
            if problem is not None:
                yield f"refused_program.py {call}: after {where} was refused: {problem}"

    def make_in_time(self, made: Made, number: int) -> str | None:
        """Make it; again if a busy machine let it miss a limit that it keeps otherwise."""
        for _ in range(TRIES):
            problem = self.make(made, number)
            if problem is None or f" {LATE} (" not in problem:
                return problem
        return problem

    def make(self, made: Made, number: int) -> str | None:
        """Make the call with the refusal of this number. Return what is wrong."""
        again = made.again()
        if made.waits("none", self.fabric):
            self.beside(again, number)
        else:
            # In the main thread, where some calls start a thread.
            signal.setitimer(signal.ITIMER_REAL, HANG)
            self.refuse(number)
            again.run()
            self.injection.end()
            signal.setitimer(signal.ITIMER_REAL, 0)
        if self.injection.struck() and again.outcome in self.says_so(made):
            again.outcome = made.row.allowed("none", self.fabric)[0]
        if again.outcome == "waits" and again.row.allowed("none", self.fabric)[0] == "waits":
            return None
        return again.problem("none", self.fabric)

    def says_so(self, made: Made) -> tuple[str, ...]:
        """The errors of a call that was refused something."""
        accepts = made.entry == "encrypted" or self.name.endswith("+")
        return ("ResourceExhausted", *(openings.SENT_AWAY if accepts else ()))

    def refuse(self, number: int) -> None:
        last = FOR_EVER if self.name.endswith("+") else number
        self.injection.refuse(self.process, self.point, number, last, LARGE)

    def beside(self, made: Made, number: int) -> None:
        """Begin a call that may wait until its handle closes, and leave it waiting."""
        begins, go = threading.Event(), threading.Event()

        def run() -> None:
            begins.set()
            go.wait()
            made.run()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        begins.wait()
        self.refuse(number)
        go.set()
        thread.join(0.05)
        self.injection.end()
        self.waiting.append(thread)

    def problems(self, wanted: str, only: int | None) -> Iterator[str]:
        with the_world(self.fabric) as peer, tempfile.TemporaryDirectory() as folder:
            if self.name.startswith("far-"):
                self.process = peer.pid
            WORLD.update(openings=None, fabrics=[self.fabric], folder=folder)
            for made in all_calls():
                # What waits for its limit each time: of a share, a fifth.
                late = SHARE and made.row.allowed("none", self.fabric) == (LATE,)
                if late and random.Random(f"{SEED} {self.name} {made.name}").random() > 0.2:
                    continue
                if fnmatch.fnmatchcase(made.name, wanted):
                    yield from self.of(made) if only is None else self.at(made, only)
        for thread in self.waiting:
            thread.join(HANG)
            if thread.is_alive():
                yield "a call waits although its handle was closed"


class JumpingClock(Strikes):
    """Makes all calls with a wall clock that jumps at every reading: nothing changes."""

    def problems(self, wanted: str, only: int | None) -> Iterator[str]:
        self.injection.jump_clock(JUMP)
        self.struck = abs(time.time() - time.time()) >= JUMP
        yield from program.under("none", self.fabric)
        with the_world(self.fabric), tempfile.TemporaryDirectory() as folder:
            WORLD.update(openings=None, fabrics=[self.fabric], folder=folder)
            for name, row in openings.ROWS.items():
                made = Made("openings", name, row)
                made.run()
                problem = made.problem("none", self.fabric)
                if problem is not None:
                    yield f"{self.name}: {problem}"
        self.injection.jump_clock(0)


def main(fabric: str = "", points: str = "", wanted: str = "*", number: str = "") -> int:
    check(fabric, program.FABRICS, "fabric")
    for point in points.split(","):
        check(point.removesuffix("+").removeprefix("far-"), ("clock", *POINTS), "point")
    if not fnmatch.filter([made.name for made in all_calls()], wanted):
        refuse(
            f"'{wanted}' matches no call; tests/python/matrix/calls.py and openings.py name the "
            "calls, as in Segment.read and openings.box"
        )
    signal.signal(signal.SIGALRM, program.interrupt)
    return at_each_point(
        lambda fabric, point: (JumpingClock if point == "clock" else Refusals)(fabric, point),
        fabric, points, wanted, number,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
