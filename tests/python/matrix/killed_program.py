"""A peer that is killed at its n-th send: killed_program.py FABRIC KIND [WHAT [N]]

KIND is `sends`, `files` or `steps` (each call to libc that Farwrite makes): the peer ends with
SIGKILL instead of the n-th call of the kind. With `halves` it sends half of the n-th packet, and
closes that connection. First the histories of `histories.py`, each in a new world; then each call
of the table that needs the peer: it ends as without a fault, or as if the peer was killed before.
Several kinds: with commas between.

Prints a line for what was otherwise, or "survivor fine" if nothing was. WHAT is a pattern of
histories and calls. With INJECTION_SHARE=K at most K numbers of each history are tried, and K times
as many calls as there are histories, drawn by INJECTION_SEED.
"""

from __future__ import annotations

import faulthandler
import fnmatch
import os
import random
import sys
import tempfile
from collections.abc import Iterator

import farwrite as fw
from matrix import program
from matrix.histories import HISTORIES, Run
from matrix.injection import FOR_EVER, HALVE, KILL, Injection, start_with_the_library
from matrix.kinds import LATE
from matrix.program import Made
from matrix.world import the_world
from processes import PeerProcess

SEED = int(os.environ.get("INJECTION_SEED", "1"))
SHARE = int(os.environ.get("INJECTION_SHARE", "0"))


KINDS = ("sends", "files", "steps", "halves")
MOST = 8
"""Numbers of one call: while it waits, its peer sends signs of life without end."""


def draw(numbers: list[int], of: str, most: int) -> list[int]:
    """All of them, or the share that is asked for."""
    if not SHARE or len(numbers) <= most:
        return numbers
    return sorted(random.Random(f"{SEED} {of}").sample(numbers, most))


class Deaths:
    """Lets peers meet the action."""

    def __init__(self, fabric: str, kind: str) -> None:
        self.fabric, self.name = fabric, kind
        self.kind, self.action = ("sends", HALVE) if kind == "halves" else (kind, KILL)
        self.injection = Injection()
        self.killed = 0

    def strike(self, peer: PeerProcess, number: int) -> None:
        self.injection.strike(peer.pid, self.kind, self.action, number)

    def history(self, name: str, number: int) -> str | None:
        """Run a history with a peer that meets its end at this number. Return what is wrong."""
        with (
            fw.Device() as link,
            PeerProcess(link.endpoint) as peer,
            tempfile.TemporaryDirectory() as folder,
        ):
            link.accept(20)
            self.strike(peer, number)
            try:
                HISTORIES[name](Run(peer, self.fabric, folder, self.action == KILL))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            finally:
                self.killed += self.injection.struck(1) > 0
                self.injection.end_of_strike()
                peer.kill()
        return None

    def histories(self, wanted: str, only: int | None) -> Iterator[str]:
        for name in HISTORIES:
            if not fnmatch.fnmatchcase(name, wanted):
                continue
            problem = self.history(name, FOR_EVER)
            if problem is not None:
                yield f"{name} without a fault: {problem}"
            there_are = self.injection.end_of_strike()
            numbers = draw(list(range(1, there_are + 1)), f"{self.name} {name}", SHARE)
            for number in numbers if only is None else [only]:
                call = f"{self.fabric} {self.name} {name} {number}"
                print(call, file=sys.stderr, flush=True)
                problem = self.history(name, number)
                if problem is not None:
                    yield f"killed_program.py {call}: at {self.injection.where(1)}: {problem}"

    def counted(self) -> list[tuple[Made, int]]:
        """Each call that needs the peer, with each number that its peer may be killed at."""
        pairs, threads = [], []
        with the_world(self.fabric) as peer:
            for made in calls():
                self.strike(peer, FOR_EVER)
                threads.append(program.start(made))
                threads[-1].join(0.1 if waits(made, self.fabric) else program.HANG)
                there_are = min(self.injection.end_of_strike(), MOST)
                pairs += [(made, number) for number in range(1, there_are + 1)]
            peer.kill()
            for thread in threads:
                thread.join(program.HANG)
        return pairs

    def call(self, made: Made, number: int) -> str | None:
        """Make a call of the table, whose peer meets its end at this number."""
        with the_world(self.fabric) as peer:
            again = Made(made.kind, made.entry, made.row)
            self.strike(peer, number)
            thread = program.start(again)
            if not waits(made, self.fabric):
                thread.join(program.HANG)
            self.killed += self.injection.struck(1) > 0
            self.injection.end_of_strike()
            peer.kill()
            thread.join(program.HANG)
        if again.outcome == LATE:  # its own limit came before the death was known
            return None
        ends = ("none", "killed") if self.action == KILL else ("none", "killed", "closed")
        problems = [again.problem(fault, self.fabric) for fault in ends]
        return None if None in problems else problems[1]

    def calls(self, wanted: str, only: int | None) -> Iterator[str]:
        pairs = [
            (made, number)
            for made, number in self.counted()
            if fnmatch.fnmatchcase(f"{made.kind}.{made.entry}", wanted) and only in (None, number)
        ]
        for at in draw(list(range(len(pairs))), self.name, SHARE * len(HISTORIES)):
            made, number = pairs[at]
            call = f"{self.fabric} {self.name} {made.kind}.{made.entry} {number}"
            print(call, file=sys.stderr, flush=True)
            problem = self.call(made, number)
            if problem is not None:
                yield f"killed_program.py {call}: at {self.injection.where(1)}: {problem}"


def calls() -> list[Made]:
    """The calls of the table that need the peer."""
    return [made for made in program.calls(closing=False) if made.row.kind == "peer"]


def waits(made: Made, fabric: str) -> bool:
    return "waits" in made.row.allowed("none", fabric)


def main(fabric: str, kinds: str, wanted: str = "*", number: str | None = None) -> int:
    program.check(fabric, program.FABRICS, "fabric")
    for kind in kinds.split(","):
        program.check(kind, KINDS, "kind")
    names = [*HISTORIES]
    if kinds != "files":
        names += [f"{made.kind}.{made.entry}" for made in calls()]
    if not fnmatch.filter(names, wanted):
        program.refuse(
            f"'{wanted}' matches no history ({', '.join(HISTORIES)}) and no call that needs the "
            "peer; tests/python/matrix/calls.py names the calls, as in Segment.read"
        )
    start_with_the_library()
    faulthandler.enable()
    problems = program.Problems()
    killed = 0
    for problem in program.under("none", fabric):
        problems.add(f"before: {problem}", fabric, kinds, wanted)
    only = int(number) if number else None
    for kind in kinds.split(","):
        before = program.held()
        deaths = Deaths(fabric, kind)
        for problem in deaths.histories(wanted, only):
            problems.add(problem, *program.words_in(problem) or (fabric, kind, wanted))
        if kind != "files":  # which no call of the table lets the peer write
            for problem in deaths.calls(wanted, only):
                problems.add(problem, *program.words_in(problem) or (fabric, kind, wanted))
        after = program.held()
        if after != before:
            left = f"{kind}: descriptors and threads were {before}, and are {after}"
            problems.add(left, fabric, kind, wanted)
        killed += deaths.killed
        if not deaths.killed and wanted == "*":
            problems.add(f"{kind}: no peer was killed", fabric, kind, wanted)
        print(f"{kind}: {deaths.killed} killed", file=sys.stderr)
    for problem in program.under("none", fabric):
        problems.add(f"afterwards: {problem}", fabric, kinds, wanted)
    if wanted != "*" and not killed and not problems.found:
        which = "nothing" if number is None else f"no number {number}"
        program.refuse(f"'{wanted}' has {which} of {kinds}; name another kind or call")
    return problems.end()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
