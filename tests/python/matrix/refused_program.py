"""Every call with its n-th call to the system refused: refused_program.py FABRIC KIND [CALL [N]]

KIND is one of `injection.KINDS`; `KIND+` refuses the n-th and all later ones, until the call has
ended, and `far-KIND` refuses it the peer's process. Each call of the table, and each of
`openings.py`, is made with the first one refused, then the second, until it has no further one to
refuse. Each time the call does what it does without a fault, or says what is lacking. Then it is
made without a fault, and works. At last all calls are made with a new peer. With KIND `clock` the
wall clock jumps by hours at every reading, and nothing changes. Several kinds: with commas between.

Prints a line for each call that did otherwise, or "survivor fine" if none did. CALL may be a
pattern, such as `openings.*`. With INJECTION_SHARE=K a call that has more than K to refuse is made
K times, with some of them drawn by INJECTION_SEED.
"""

from __future__ import annotations

import faulthandler
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
from matrix.injection import FOR_EVER, KINDS, Injection, start_with_the_library
from matrix.kinds import LATE
from matrix.program import Made
from matrix.world import the_world

MOST = {"waits": 12}
"""How many are tried of the calls to the system that some thread makes without end."""
LARGE = int(os.environ.get("INJECTION_LEAST", 16 << 10))
"""Bytes of an allocation that counts. A known gap: smaller ones, which a system that overcommits
memory does not refuse, end the process in threads of a device and in arguments of bindings."""
TRIES = 3
JUMP = 7200
"""Seconds."""
SEED = int(os.environ.get("INJECTION_SEED", "1"))
SHARE = int(os.environ.get("INJECTION_SHARE", "0"))


def all_calls() -> Iterator[Made]:
    """Those of the table and the openings, and last what closes the handles."""
    yield from program.calls(closing=False)
    for name, row in openings.ROWS.items():
        yield Made("openings", name, row)
    yield from program.calls(closing=True)


class Refusals:
    """Makes calls in one world, with one kind refused."""

    def __init__(self, fabric: str, kind: str) -> None:
        self.fabric, self.name, self.kind = fabric, kind, kind.rstrip("+").removeprefix("far-")
        self.process = os.getpid()
        self.injection = Injection()
        self.waiting: list[threading.Thread] = []
        self.refused = 0

    def of(self, made: Made) -> Iterator[str]:
        """Make the call with each refusal in turn; what closes its handle, with the first one."""
        if made.entry in program.CLOSING:
            yield from self.at(made, 1)
            return
        problem, there_are = self.make_in_time(made, FOR_EVER), self.injection.end()
        if problem is not None:
            yield f"with nothing refused: {problem}"
        numbers = list(range(1, min(there_are, MOST.get(self.kind, there_are)) + 1))
        if SHARE and len(numbers) > SHARE:
            where = f"{SEED} {self.name} {made.kind}.{made.entry}"
            numbers = sorted(random.Random(where).sample(numbers, SHARE))
        for number in numbers:
            yield from self.at(made, number)

    def at(self, made: Made, number: int) -> Iterator[str]:
        """Make the call with one refusal, and once more without."""
        call = f"{self.fabric} {self.name} {made.kind}.{made.entry} {number}"
        print(call, file=sys.stderr, flush=True)  # the last line names a call that ends the process
        problem = self.make_in_time(made, number)
        where = self.injection.where()
        if problem is not None:
            yield f"refused_program.py {call}: {where} was refused: {problem}"
        if self.injection.struck():
            self.refused += 1
        if self.injection.struck() and made.entry not in program.CLOSING:
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
        again = Made(made.kind, made.entry, made.row)
        if "waits" in made.row.allowed("none", self.fabric):
            self.beside(again, number)
        else:
            # In the main thread, where some calls start a thread.
            signal.setitimer(signal.ITIMER_REAL, program.HANG)
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
        self.injection.refuse(self.process, self.kind, number, last, LARGE)

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


def under(refusals: Refusals, wanted: str, number: int | None) -> Iterator[str]:
    with the_world(refusals.fabric) as peer, tempfile.TemporaryDirectory() as folder:
        if refusals.name.startswith("far-"):
            refusals.process = peer.pid
        WORLD.update(openings=None, fabrics=[refusals.fabric], folder=folder)
        for made in all_calls():
            name = f"{made.kind}.{made.entry}"
            # What waits for its limit each time: of a share, a fifth.
            late = SHARE and made.row.allowed("none", refusals.fabric) == (LATE,)
            if late and random.Random(f"{SEED} {refusals.name} {name}").random() > 0.2:
                continue
            if fnmatch.fnmatchcase(name, wanted):
                yield from refusals.of(made) if number is None else refusals.at(made, number)
    for thread in refusals.waiting:
        thread.join(program.HANG)
        if thread.is_alive():
            yield "a call waits although its handle was closed"


def with_a_clock_that_jumps(fabric: str) -> Iterator[str]:
    """Make all calls with a wall clock that jumps at every reading: nothing changes."""
    injection = Injection()
    injection.jump_clock(JUMP)
    if abs(time.time() - time.time()) < JUMP:
        yield "it does not jump"
    yield from program.under("none", fabric)
    with the_world(fabric), tempfile.TemporaryDirectory() as folder:
        WORLD.update(openings=None, fabrics=[fabric], folder=folder)
        for name, row in openings.ROWS.items():
            made = Made("openings", name, row)
            made.run()
            problem = made.problem("none", fabric)
            if problem is not None:
                yield problem
    injection.jump_clock(0)


def main(fabric: str, kinds: str, wanted: str = "*", number: str | None = None) -> int:
    program.check(fabric, program.FABRICS, "fabric")
    for kind in kinds.split(","):
        program.check(kind.removesuffix("+").removeprefix("far-"), ("clock", *KINDS), "kind")
    if not fnmatch.filter([f"{made.kind}.{made.entry}" for made in all_calls()], wanted):
        program.refuse(
            f"'{wanted}' matches no call; tests/python/matrix/calls.py and openings.py name the "
            "calls, as in Segment.read and openings.box"
        )
    start_with_the_library()
    faulthandler.enable()
    problems = program.Problems()
    refused = 0
    signal.signal(signal.SIGALRM, program.interrupt)
    # What a process opens once is open from now on.
    for problem in program.under("none", fabric):
        problems.add(f"before: {problem}", fabric, kinds, wanted)
    for kind in kinds.split(","):
        if kind == "clock":
            for problem in with_a_clock_that_jumps(fabric):
                problems.add(f"{kind}: {problem}", fabric, kind)
            continue
        before = program.held()
        refusals = Refusals(fabric, kind)
        for problem in under(refusals, wanted, int(number) if number else None):
            problems.add(problem, *program.words_in(problem) or (fabric, kind, wanted))
        after = program.held()
        if after != before:
            left = f"{kind}: descriptors and threads were {before}, and are {after}"
            problems.add(left, fabric, kind, wanted)
        refused += refusals.refused
        if not refusals.refused and wanted == "*":
            problems.add(f"{kind}: nothing was refused", fabric, kind, wanted)
        print(f"{kind}: {refusals.refused} refused", file=sys.stderr)
    for problem in program.under("none", fabric):
        problems.add(f"afterwards: {problem}", fabric, kinds, wanted)
    if wanted != "*" and not refused and not problems.found:
        which = "nothing" if number is None else f"no number {number}"
        program.refuse(f"'{wanted}' has {which} of {kinds}; name another kind or call")
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
