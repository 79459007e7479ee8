"""Raises a KeyboardInterrupt again if Python dropped it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_AGAIN_SECONDS = 0.02


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

    def keep(dropped: sys.UnraisableHookArgs) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
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
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, raise_again)
    sys.unraisablehook = keep
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = report
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
