"""Exceptions at every place in a call, as a signal handler raises them."""

from __future__ import annotations

import dis
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import farwrite as fw

PACKAGE = f"{Path(fw.__file__).parent}/"


_PLACES: dict[CodeType, frozenset[int]] = {}


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
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        path = frame.f_code.co_filename
        if not path.startswith(PACKAGE) or (self._files and Path(path).name not in self._files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._count

    def _places_of(self, code: CodeType) -> frozenset[int]:
        if code not in _PLACES:
            _PLACES[code] = _may_follow(code)
        return _PLACES[code]

    def _count(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_lasti in self._places_of(frame.f_code):
            self.executed += 1
            if self.executed == self._stop_at:
                raise InterruptError
        return self._count


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
