"""Exceptions at every place in a call, as a signal handler raises them."""

from __future__ import annotations

import dis
import itertools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import farwrite as fw

PACKAGE = f"{Path(fw.__file__).parent}/"


_PLACES: dict[CodeType, frozenset[int]] = {}
_TOOL = 4
"""Of `sys.monitoring`: one that neither Python nor a debugger uses."""


class InterruptError(KeyboardInterrupt):
    """What the tests raise in the middle of a call, as Ctrl-C does."""


def _may_follow(code: CodeType) -> frozenset[int]:
    """The offsets of instructions before which Python may run a signal handler.

    It does so after calls and jumps back, and an exception then goes to the handler of these. Where
    the instruction that follows has another one, this is not the same, and it does not count: no
    signal comes between the last call in a ``with`` block and its end.
    """
    bytecode = dis.Bytecode(code)
    entries = getattr(bytecode, "exception_entries", ())  # from Python 3.11 on

    def handler(offset: int) -> object:
        inside = [one for one in entries if one.start <= offset < one.end]
        return inside[-1].target if inside else None

    instructions = list(bytecode)
    return frozenset(
        after.offset
        for before, after in itertools.pairwise(instructions)
        if before.opname.startswith(("CALL", "RESUME", "JUMP_BACKWARD", "SEND", "YIELD"))
        and handler(before.offset) == handler(after.offset)
    )


class Places:
    """Counts the places at which a signal may interrupt the package in this thread, as a context.

    Parameters
    ----------
    stop_at : int
        The number of the place at which InterruptError is raised; 0 for none.
    files : frozenset of str, optional
        The names of the files that count. By default all of the package.
    """

    def __init__(self, stop_at: int = 0, files: frozenset[str] | None = None) -> None:
        self.executed = 0
        self._stop_at, self._files = stop_at, files

    def __enter__(self) -> Places:
        if sys.version_info >= (3, 12):
            self._thread = threading.get_ident()
            sys.monitoring.use_tool_id(_TOOL, "interrupted")
            sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, self._reach)
            sys.monitoring.set_events(_TOOL, sys.monitoring.events.INSTRUCTION)
        else:
            self._before = sys.gettrace()
            sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        if sys.version_info >= (3, 12):
            sys.monitoring.set_events(_TOOL, sys.monitoring.events.NO_EVENTS)
            sys.monitoring.register_callback(_TOOL, sys.monitoring.events.INSTRUCTION, None)
            sys.monitoring.free_tool_id(_TOOL)
            sys.monitoring.restart_events()
        else:
            sys.settrace(self._before)

    def _is_watched(self, code: CodeType) -> bool:
        path = code.co_filename
        return path.startswith(PACKAGE) and (not self._files or Path(path).name in self._files)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not self._is_watched(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._count

    def _count(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            self._execute(frame.f_code, frame.f_lasti)
        return self._count

    # From Python 3.12 on, a trace function sees no instruction of a function's first run.
    def _reach(self, code: CodeType, offset: int) -> Any:
        if not self._is_watched(code):
            return sys.monitoring.DISABLE
        if threading.get_ident() == self._thread:
            self._execute(code, offset)
        return None

    def _execute(self, code: CodeType, offset: int) -> None:
        if code not in _PLACES:
            _PLACES[code] = _may_follow(code)
        if offset in _PLACES[code]:
            self.executed += 1
            if self.executed == self._stop_at:
                raise InterruptError


def interrupted_at(place: int, call: Callable[[], object], files: frozenset[str]) -> bool:
    """Call, and raise InterruptError at the `place`-th place in `files`; see `Places`.

    Returns whether the call had so many.
    """
    with Places(place, files):
        try:
            call()
        except InterruptError:
            return True
    return False


def interrupt_each_place(
    call: Callable[[], object], after: Callable[[], object], *files: str
) -> int:
    """Interrupt `call` at its first place, then at its second, until it ends by itself.

    Calls `after` after each interrupted call. Returns how many there were.
    """
    place = 1
    while interrupted_at(place, call, frozenset(files)):
        after()
        place += 1
    return place - 1
