"""Refuses the n-th call of a kind to the system, or ends a process there: tests/injection.

A program of this folder that wants it starts itself anew with the library before all others; the
processes that it starts have it, too.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import compiled

KINDS = {
    "descriptors": 1,
    "memory": 2,
    "threads": 4,
    "allocations": 8,
    "files": 16,
    "waits": 32,
    "sends": 64,
    "steps": 128,
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

    def refuse(self, process: int, kind: str, first: int, last: int, least: int = 0) -> None:
        """Refuse a process its calls of the kind from `first` to `last`, counted from 1.

        Of allocations those of `least` bytes or more count.
        """
        self._library.injectionPlan(0, process, KINDS[kind], REFUSE, first, last, least)

    def end(self) -> int:
        """Refuse nothing, and return how many calls counted."""
        return int(self._library.injectionEnd(0))

    def strike(self, process: int, kind: str, action: int, number: int) -> None:
        """Let another process meet the action at its call of this number."""
        self._library.injectionPlan(1, process, KINDS[kind], action, number, number, 0)

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
