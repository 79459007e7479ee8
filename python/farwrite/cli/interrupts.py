"""Interrupts of a command: each ends it, and what it has begun is cleaned up."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

_AGAIN_SECONDS = 0.02
_SAME_SECONDS = 1.0


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which otherwise end a process without its cleaning up."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    def end(self) -> None:
        """End this process by the signal, now that everything is cleaned up."""
        signal.signal(self.number, signal.SIG_DFL)
        os.kill(os.getpid(), self.number)


@contextlib.contextmanager
def terminations() -> Iterator[None]:
    """Raise `Terminated` at SIGTERM and SIGHUP while the block runs.

    Signals that come within a second of one belong to it and do not interrupt the cleaning up:
    ``timeout`` ends a process and then its group.
    A signal that this process ignores or handles already is left alone, and so are all of them
    outside the main thread.
    """
    last = -math.inf

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _SAME_SECONDS:
            return
        last = now
        raise Terminated(number)

    mine = []
    if threading.current_thread() is threading.main_thread():
        mine = [
            number
            for number in (signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) == signal.SIG_DFL
        ]
    for number in mine:
        signal.signal(number, terminate)
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def kept_interrupts() -> Iterator[None]:
    """Raise a KeyboardInterrupt again if Python dropped it while the block runs.

    Python drops an exception that a finalizer or the callback of a weak reference raises. Python
    often handles a signal in such a callback if the signal arrived during a garbage collection.

    The function uses SIGALRM. Outside the main thread it does nothing, because only the main
    thread handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    report = sys.unraisablehook
    interrupt = KeyboardInterrupt()  # the last that was dropped

    def keep(dropped: sys.UnraisableHookArgs) -> None:
        nonlocal interrupt
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            interrupt = dropped.exc_value
            # Later, since what is raised in here is dropped as well.
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        else:
            report(dropped)

    def raise_again(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is keep.__code__:
                signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
                return
            frame = frame.f_back
        raise interrupt

    before = signal.signal(signal.SIGALRM, raise_again)
    sys.unraisablehook = keep
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = report
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
