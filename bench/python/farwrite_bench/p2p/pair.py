"""Two processes that measure together: this process receives, and a child sends.

A `Task` of this module is the child.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, cast

from farwrite.errors import Error
from farwrite_bench._native import Kind, Op, Peer, Role, stage_bytes
from farwrite_bench.cluster.process import Task

POLLING_SPIN_SECONDS = 1.0
"""`DeviceOptions.spin` with --wait poll: longer than any transfer takes."""
PHASE_SECONDS = 7 * 24 * 3600.0
"""A phase takes as long as the user has chosen."""
CONNECT_SECONDS = 30.0

Phase = dict[str, Any]
"""The arguments of `Peer.run_phase`: one loop that both processes run. ``op`` and ``kind`` are
names, ``size`` is in bytes, and ``limit`` selects the raw loop."""
Figures = SimpleNamespace
"""What `Peer.prepare` and `Peer.run_phase` return: the figures of one process."""


@dataclass(frozen=True)
class Setup:
    """The settings that both processes need before they connect."""

    op: str
    fabric: str
    lanes: int
    pool_bytes: int
    wait: str

    def open_peer(self, role: Role, stage: int) -> Peer:
        """Open one side's device and map `stage`, a file descriptor."""
        return Peer(
            role=role,
            op=Op[self.op.upper()],
            fabric=self.fabric,
            lanes=self.lanes,
            pool_bytes=self.pool_bytes,
            spin_seconds=POLLING_SPIN_SECONDS if self.wait == "poll" else 0.0,
            stage_fd=stage,
        )


def _run_phase(peer: Peer, phase: Phase) -> Figures:
    """Run one side of a phase; returns when both sides have finished."""
    names = {"op": Op[phase["op"].upper()], "kind": Kind[phase["kind"].upper()]}
    return cast("Figures", peer.run_phase(**{**phase, **names}))


class Pair:
    """The receiver in this process and the sender in a child. Use it as a context manager.

    The end of the context ends the child and frees the memory of both, even after an error.

    Parameters
    ----------
    log : Path
        File for the child's output.

    Raises
    ------
    farwrite.Error
        From every method, if either side fails.
    """

    def __init__(self, setup: Setup, log: Path) -> None:
        self.setup = setup
        self.costs: tuple[Figures, Figures]
        """The receiver's and the sender's, of starting."""
        self._log = log

    def __enter__(self) -> Pair:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def run(self, phase: Phase) -> tuple[Figures, Figures]:
        """Run a phase and return the figures of the receiver and of the sender."""
        self._child.send(phase)
        with self._first_cause():
            ours = _run_phase(self._peer, phase)
        return ours, self._answer()

    def _start(self, stack: contextlib.ExitStack) -> None:
        setup = self.setup
        stage = os.memfd_create("farwrite-bench", os.MFD_CLOEXEC)
        try:
            os.truncate(stage, stage_bytes(setup.pool_bytes))
            self._peer = setup.open_peer(Role.RECEIVER, stage)
            task = Task("p2p sender", "farwrite_bench.p2p.pair", {}, self._log)
            self._child = stack.enter_context(task)
            stack.callback(self._stop)
            path = f"/proc/{os.getpid()}/fd/{stage}"
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.settimeout(CONNECT_SECONDS)
            # Its device is open when it answers, so accept() does not wait for it.
            port = listener.getsockname()[1]
            self._child.ask((asdict(setup), path, self._peer.endpoint, port))
        finally:
            os.close(stage)
        sockets = [stack.enter_context(listener.accept()[0]) for _ in range(_raw_sockets(setup))]
        with self._first_cause():
            ours = cast("Figures", self._peer.prepare("", _tuned(sockets)))
        self.costs = (ours, self._answer())

    def _answer(self) -> Figures:
        answer = self._child.receive(PHASE_SECONDS)
        assert isinstance(answer, Figures), "a child sends figures, or the Failure that raised"
        return answer

    @contextlib.contextmanager
    def _first_cause(self) -> Iterator[None]:
        """Raise the error of the side that failed first: the other one saw only that it gave up."""
        try:
            yield
        except Error as error:
            self._peer.give_up()
            try:
                self._child.receive()
            except Error as theirs:
                if "gave up" not in str(theirs):
                    raise theirs from None
            raise error from None

    def _stop(self) -> None:
        self._child.close()  # both devices then close at the same time
        self._peer.give_up()
        with contextlib.suppress(Error):
            self._peer.close()
        del self._peer


def _raw_sockets(setup: Setup) -> int:
    """Return how many connections the raw loop has: over tcp one for each lane."""
    return setup.lanes if setup.fabric == "tcp" else 0


def _tuned(sockets: list[socket.socket]) -> list[int]:
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return [each.fileno() for each in sockets]


def main(control: Connection) -> None:
    """Run the phases that the parent orders, until it closes the pipe."""
    settings, path, endpoint, port = control.recv()
    setup = Setup(**settings)
    stage = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    peer = setup.open_peer(Role.SENDER, stage)
    os.close(stage)
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(_raw_sockets(setup))]
    try:
        control.send(None)
        control.send(peer.prepare(endpoint, _tuned(sockets)))
        while True:
            control.send(_run_phase(peer, control.recv()))
    except Error:
        peer.give_up()
        raise
    except EOFError:
        peer.close()
        raise
