"""The processes of a random program: this one, and up to three others that do what it asks."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any

import farwrite as fw
from processes import PeerProcess

PATIENCE = 25.0
"""Seconds that anything may take: a bound, and no measure."""
SHORT = 0.1
"""Seconds of a wait that is to end by its limit."""


class Here:
    """This process, for functions that are also called in others. See `PeerState`."""

    runs = True

    def __init__(self, device: Any = None, channel: Any = None) -> None:
        self.device, self.channel, self.kept = device, channel, dict[str, Any]()

    def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        return function(self, *arguments)


class There(PeerProcess):
    """Another process, with what the model knows of it."""

    def __init__(self, link: fw.Device, stack: contextlib.ExitStack) -> None:
        super().__init__(link.endpoint)
        stack.enter_context(self)
        stack.callback(self.kill)
        self.here = link.accept(PATIENCE)
        self.alive, self.stands, self.busy = True, False, False

    @property
    def runs(self) -> bool:
        """Whether it can be asked for something."""
        return self.alive and not self.stands and not self.busy

    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        super().start(function, *arguments)
        self.busy = True

    def result(self) -> Any:
        self.busy = False
        return super().result()

    def kill(self) -> None:
        self.alive = False
        super().kill()

    def stop(self) -> None:
        super().stop()
        self.stands = True

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)
        self.stands = False


class Tally:
    """Numbers that processes share, so that they are known even of a process that was killed."""

    def __init__(self, path: str, create: bool = False) -> None:
        with open(path, "w+b" if create else "r+b") as file:
            if create:
                file.truncate(mmap.PAGESIZE)
            self._memory = mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def __getitem__(self, at: int) -> int:
        return int(struct.unpack_from("q", self._memory, 8 * at)[0])

    def __setitem__(self, at: int, value: int) -> None:
        struct.pack_into("q", self._memory, 8 * at, value)

    def close(self) -> None:
        self._memory.close()


def temporary_folder(stack: contextlib.ExitStack) -> str:
    return stack.enter_context(tempfile.TemporaryDirectory())


def new_tally(stack: contextlib.ExitStack) -> tuple[Tally, str]:
    """Make a tally, and return it with its path for other processes."""
    path = os.path.join(temporary_folder(stack), "tally")
    tally = Tally(path, create=True)
    stack.callback(tally.close)
    return tally, path


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until something holds that must hold soon."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"not in {PATIENCE:g} s: {what}"
        time.sleep(0.002)


def outcome(call: Callable[[], Any]) -> tuple[Any, str]:
    """Call, and return the result, and "" or the name of the error of Farwrite."""
    try:
        return call(), ""
    except fw.Error as error:
        return None, type(error).__name__


def expect(found: str, *allowed: str, of: object) -> None:
    """Fail unless an outcome is one of those that are allowed; "" is success."""
    assert found in allowed, f"{of}: {found or 'success'}, not {' or '.join(allowed) or 'success'}"
