"""Refuses the n-th call to the system at a point, or ends a process there: tests/injection.

A point is a kind of calls to the system, one of `POINTS`. A program of this folder that wants the
library starts itself anew with it before all others; the processes that it starts have it, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import compiled
import held
from matrix import command_line, program

POINTS = {
    "descriptors": 1,
    "memory": 2,
    "threads": 4,
    "allocations": 8,
    "files": 16,
    "waits": 32,
    "sends": 64,
    "libc": 128,
    "own_threads": 256,
}
REFUSE, KILL, HALVE = range(3)
FOR_EVER = 2**63
ORDERS_BYTES = 4096


def library() -> Path:
    """Compile the library if need be, and return its path."""
    # The compiler must not take one function that stands before libc's for another.
    return compiled.library("injection", "-fno-builtin")


def make_orders() -> int:
    """Name fresh orders in this process's environment, and return their descriptor."""
    orders = os.memfd_create("orders", 0)
    os.ftruncate(orders, ORDERS_BYTES)
    os.environ["INJECTION_ORDERS"] = f"/proc/{os.getpid()}/fd/{orders}"
    return orders


@contextlib.contextmanager
def orders() -> Iterator[None]:
    """Have fresh orders, for this process and those that it starts meanwhile."""
    with mock.patch.dict(os.environ):
        descriptor = make_orders()
        try:
            yield
        finally:
            os.close(descriptor)


def start_with_the_library() -> None:
    """Go on if the library is in this process; otherwise start this program anew with it."""
    if "INJECTION_ORDERS" in os.environ:
        return
    os.set_inheritable(make_orders(), True)
    os.environ["LD_PRELOAD"] = str(library())
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


class Injection:
    """The orders that this process shares with its peers."""

    def __init__(self, path: Path | None = None) -> None:
        """Use the library of this process, or the one at `path` for others alone."""
        self._library = ctypes.CDLL(path and str(path))
        plan = self._library.injectionPlan
        plan.argtypes = [ctypes.c_int] * 2 + [ctypes.c_uint] * 2 + [ctypes.c_ulong] * 3
        plan.restype = None
        for function in ("injectionEnd", "injectionStruck", "injectionTold"):
            getattr(self._library, function).restype = ctypes.c_ulong
        self._library.injectionWhere.restype = ctypes.c_char_p
        self._library.injectionTell.argtypes = [ctypes.c_int, ctypes.c_ulong]
        self._library.injectionJumpClock.argtypes = [ctypes.c_long]

    def refuse(self, process: int, point: str, first: int, last: int, least: int = 0) -> None:
        """Refuse a process its calls at the point from `first` to `last`, counted from 1.

        Of allocations those of `least` bytes or more count.
        """
        self._library.injectionPlan(0, process, POINTS[point], REFUSE, first, last, least)

    def end(self) -> int:
        """Refuse nothing, and return how many calls counted."""
        return int(self._library.injectionEnd(0))

    def strike(self, process: int, point: str, action: int, number: int) -> None:
        """Let another process meet the action at its call of this number."""
        self._library.injectionPlan(1, process, POINTS[point], action, number, number, 0)

    def end_of_strike(self) -> int:
        """Let the other process be, and return how many of its calls counted."""
        return int(self._library.injectionEnd(1))

    def struck(self, plan: int = 0) -> int:
        return int(self._library.injectionStruck(plan))

    def where(self, plan: int = 0) -> str:
        """Return the function that was struck last."""
        name: bytes = self._library.injectionWhere(plan)
        return name.decode()

    def jump_clock(self, seconds: int) -> None:
        """Let every reading of the wall clock jump, ahead or back; 0 ends it."""
        self._library.injectionJumpClock(seconds)

    def tell(self, at: int, value: int) -> None:
        """Leave a number for the other process."""
        self._library.injectionTell(at, value)

    def told(self, at: int) -> int:
        return int(self._library.injectionTold(at))


class Strikes:
    """Makes calls while one of them is struck at a point, again and again."""

    def __init__(self, fabric: str, point: str) -> None:
        self.fabric, self.name = fabric, point
        self.injection = Injection()
        self.struck = 0
        """How many were."""

    def problems(self, wanted: str, only: int | None) -> Iterator[str]:
        """Make the calls whose names match, with each number or with one, and say what is wrong.

        What begins with the name of a program and a colon says how to repeat it.
        """
        raise NotImplementedError


def at_each_point(
    strikes: Callable[[str, str], Strikes], fabric: str, points: str, wanted: str, number: str
) -> int:
    """Make the calls at each point; return the status of the program."""
    start_with_the_library()
    faulthandler.enable()
    problems = command_line.Problems()
    struck = 0
    # What a process opens once is open from now on.
    for problem in program.under("none", fabric):
        problems.add(f"before: {problem}", fabric, points, wanted)
    for point in points.split(","):
        before = held.settled()
        here = strikes(fabric, point)
        for problem in here.problems(wanted, int(number) if number else None):
            problems.add(problem, *words_in(problem) or (fabric, point, wanted))
        if left := held.not_given_back(before):
            problems.add(f"{point}: {left}", fabric, point, wanted)
        struck += here.struck
        if not here.struck and wanted == "*":
            problems.add(f"{point}: nothing was struck", fabric, point, wanted)
    for problem in program.under("none", fabric):
        problems.add(f"afterwards: {problem}", fabric, points, wanted)
    if wanted != "*" and not struck and not problems.found:
        which = f"no number {number}" if number else "nothing"
        command_line.refuse(f"'{wanted}' has {which} of {points}; name another point or call")
    return problems.end()


def words_in(problem: str) -> list[str]:
    """Return the words of the command that a problem begins with, if it does."""
    start, _, rest = problem.partition(" ")
    return rest.partition(":")[0].split() if start.endswith(".py") else []
