"""A second process with a device of its own, that does what a test asks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import farwrite as fw


def bytes_in_sockets() -> int:
    """Return the most bytes that the kernel takes, by tcp, for a peer that reads nothing."""
    limits = (Path("/proc/sys/net/ipv4") / name for name in ("tcp_rmem", "tcp_wmem"))
    return sum(int(limit.read_text().split()[2]) for limit in limits)


@dataclass
class PeerState:
    """What functions run in the peer process find there."""

    device: fw.Device
    channel: fw.Channel
    kept: dict[str, Any] = field(default_factory=dict)


def _serve(orders: Connection, endpoint: str) -> None:
    with (
        contextlib.suppress(EOFError, OSError),
        fw.Device() as device,
        device.connect(endpoint) as channel,
    ):
        state = PeerState(device, channel)
        while True:
            function, arguments = orders.recv()
            try:
                orders.send((function(state, *arguments), None))
            except Exception as error:
                orders.send((None, error))


class PeerProcess:
    """Starts a process that connects to `endpoint`, and ends it with the context."""

    def __init__(self, endpoint: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._orders, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, endpoint), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call function(state, *arguments) there and return its result or raise its error."""
        self.start(function, *arguments)
        return self.result()

    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        """Call function(state, *arguments) there without waiting."""
        self._orders.send((function, arguments))

    def result(self) -> Any:
        """Return what the function gave that was started last."""
        assert self._orders.poll(30), "the peer process does not answer"
        result, error = self._orders.recv()
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        """End the process with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.join()

    @contextlib.contextmanager
    def stopped(self) -> Any:
        """Hold the process with SIGSTOP for the length of the context."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        """Let the process end in good order."""
        self._orders.close()
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ValueError):  # ended by the test
            self.end()


def group_lives(group: int) -> bool:
    """Tell whether any process of the process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
