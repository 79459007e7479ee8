"""Exceptions at every step of a call, as a signal handler raises them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import farwrite as fw

PACKAGE = Path(fw.__file__).parent


class InterruptError(KeyboardInterrupt):
    """What the tests raise in the middle of a call, as Ctrl-C does."""


def interrupted_at(step: int, call: Callable[[], object], files: frozenset[str]) -> bool:
    """Call, and raise InterruptError before the `step`-th bytecode instruction of `files`.

    Returns whether the call had so many.
    """
    executed = 0

    def raise_at_step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal executed
        if event == "opcode":
            executed += 1
            if executed == step:
                raise InterruptError
        return raise_at_step

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        path = Path(frame.f_code.co_filename)
        if path.name not in files or PACKAGE not in path.parents:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return raise_at_step

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except InterruptError:
        return True
    finally:
        sys.settrace(before)
    return False


def interrupt_each_step(
    call: Callable[[], object], after: Callable[[], object], *files: str
) -> int:
    """Interrupt `call` at its first instruction, then at its second, until it ends by itself.

    Calls `after` after each interrupted call. Returns how many there were.
    """
    step = 1
    while interrupted_at(step, call, frozenset(files)):
        after()
        step += 1
    return step - 1
