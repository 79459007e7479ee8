"""A peer that is killed at its n-th send: killed_program.py FABRIC POINT [WHAT [N]]

POINT is `sends`, `files` or `libc` (each call to libc that Farwrite makes): the peer ends with
SIGKILL instead of its n-th call there. With `halves` it sends half of the n-th packet, and
closes that connection. First the histories of `histories.py`, each in a new world; then each call
of the table that needs the peer: it ends as without a fault, or as if the peer was killed before.
Several points: with commas between.

Prints a line for what was otherwise, or "survivor fine" if nothing was. WHAT is a pattern of
histories and calls. With TEST_SHARE=2 at most two numbers of each history are tried, and twice as
many calls as there are histories, drawn by TEST_SEED.
"""

from __future__ import annotations

import fnmatch
import sys
import tempfile
from collections.abc import Iterator

import farwrite as fw
from matrix import program
from matrix.command_line import check, drawn, refuse, under_way
from matrix.histories import HISTORIES, Run
from matrix.injection import FOR_EVER, HALVE, KILL, Strikes, at_each_point
from matrix.kinds import LATE
from matrix.made import HANG, Made, calls, start
from matrix.world import the_world
from processes import PeerProcess

WHERE = ("sends", "files", "libc", "halves")
MOST = 8
"""Numbers of one call: while it waits, its peer sends signs of life without end."""


class Deaths(Strikes):
    """Lets peers meet the action."""

    def __init__(self, fabric: str, point: str) -> None:
        super().__init__(fabric, point)
        self.point, self.action = ("sends", HALVE) if point == "halves" else (point, KILL)

    def problems(self, wanted: str, only: int | None) -> Iterator[str]:
        yield from self.histories(wanted, only)
        if self.name != "files":  # which no call of the table lets the peer write
            yield from self.calls(wanted, only)

    def strike(self, peer: PeerProcess, number: int) -> None:
        self.injection.strike(peer.pid, self.point, self.action, number)

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
                self.struck += self.injection.struck(1) > 0
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
            numbers = drawn(range(1, there_are + 1), f"{self.name} {name}")
            for number in numbers if only is None else [only]:
                call = f"{self.fabric} {self.name} {name} {number}"
                under_way(call)
                problem = self.history(name, number)
                if problem is not None:
                    yield f"killed_program.py {call}: at {self.injection.where(1)}: {problem}"

    def counted(self) -> list[tuple[Made, int]]:
        """Each call that needs the peer, with each number that its peer may be killed at."""
        pairs, threads = [], []
        with the_world(self.fabric) as peer:
            for made in calls_that_need_the_peer():
                self.strike(peer, FOR_EVER)
                threads.append(start(made))
                threads[-1].join(0.1 if made.waits("none", self.fabric) else HANG)
                there_are = min(self.injection.end_of_strike(), MOST)
                pairs += [(made, number) for number in range(1, there_are + 1)]
            peer.kill()
            for thread in threads:
                thread.join(HANG)
        return pairs

    def call(self, made: Made, number: int) -> str | None:
        """Make a call of the table, whose peer meets its end at this number."""
        with the_world(self.fabric) as peer:
            again = made.again()
            self.strike(peer, number)
            thread = start(again)
            if not made.waits("none", self.fabric):
                thread.join(HANG)
            self.struck += self.injection.struck(1) > 0
            self.injection.end_of_strike()
            peer.kill()
            thread.join(HANG)
        if again.outcome == LATE:  # its own limit came before the death was known
            return None
        ends = ("none", "killed") if self.action == KILL else ("none", "killed", "closed")
        problems = [again.problem(fault, self.fabric) for fault in ends]
        return None if None in problems else problems[1]

    def calls(self, wanted: str, only: int | None) -> Iterator[str]:
        pairs = [
            (made, number)
            for made, number in self.counted()
            if fnmatch.fnmatchcase(made.name, wanted) and only in (None, number)
        ]
        for made, number in drawn(pairs, self.name, len(HISTORIES)):
            call = f"{self.fabric} {self.name} {made.name} {number}"
            under_way(call)
            problem = self.call(made, number)
            if problem is not None:
                yield f"killed_program.py {call}: at {self.injection.where(1)}: {problem}"


def calls_that_need_the_peer() -> list[Made]:
    return [made for made in calls(closing=False) if made.row.kind == "peer"]


def main(fabric: str = "", points: str = "", wanted: str = "*", number: str = "") -> int:
    check(fabric, program.FABRICS, "fabric")
    for point in points.split(","):
        check(point, WHERE, "point")
    names = [*HISTORIES]
    if points != "files":
        names += [made.name for made in calls_that_need_the_peer()]
    if not fnmatch.filter(names, wanted):
        refuse(
            f"'{wanted}' matches no history ({', '.join(HISTORIES)}) and no call that needs the "
            "peer; tests/python/matrix/calls.py names the calls, as in Segment.read"
        )
    return at_each_point(Deaths, fabric, points, wanted, number)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
