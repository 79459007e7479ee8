"""The processes of one emulation: a server and its workers, and the orders to them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, Protocol

from farwrite.errors import Internal, PeerDead
from farwrite_bench.box.openmpi import OpenMpi
from farwrite_bench.box.orders import Close, Open
from farwrite_bench.cluster.child import Failure
from farwrite_bench.cluster.process import LOG_LINES_SHOWN, START_SECONDS, Task

_PR_SET_PDEATHSIG = 1
MODULES = "farwrite_bench.box."
END_SECONDS = 10.0
TURN_SECONDS = 300.0
"""The longest that any order may take."""


class Member(Protocol):
    """One process that takes orders."""

    def send(self, message: object) -> None:
        """Send an order."""

    def receive(self, seconds: float = ...) -> object:
        """Wait for the answer."""


def ask(members: Sequence[Member], order: object) -> list[object]:
    """Send an order to all members, then return all answers."""
    for member in members:
        member.send(order)
    return [member.receive(TURN_SECONDS) for member in members]


class Rank:
    """One rank of an MPI program, as the command sees it."""

    def __init__(self, control: Connection, number: int, log: Path) -> None:
        self._control, self._number, self._log = control, number, log

    def send(self, message: object) -> None:
        """Send an order."""
        try:
            self._control.send(message)
        except OSError:
            self._fail("ended early")

    def receive(self, seconds: float = START_SECONDS) -> object:
        """Wait for the answer.

        Raises
        ------
        PeerDead
            If the rank failed, ended, or sent nothing. The message has the end of its log.
        """
        try:
            message = self._control.recv() if self._control.poll(seconds) else None
        except (EOFError, OSError):
            self._fail("ended early")
        if message is None:
            self._fail(f"sent nothing for {seconds:.0f} s")
        if isinstance(message, Failure):
            self._fail(f"failed: {message.message}")
        answer: object = message
        return answer

    def close(self) -> None:
        """Close the connection, which ends the rank."""
        self._control.close()

    def _fail(self, what: str) -> NoReturn:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        tail = "".join(f"\n    {line[:300]}" for line in lines)
        raise PeerDead(f"MPI rank {self._number} {what}; the end of {self._log}:{tail}")


@contextlib.contextmanager
def mpi_ranks(
    openmpi: OpenMpi, count: int, log: Path, module: str = MODULES + "mpi_rank"
) -> Iterator[list[Rank]]:
    """Start `count` ranks of `module`. In the box's own one the first rank is the server."""
    with contextlib.ExitStack() as stack:
        # MPI's own files: what a rank that is killed leaves goes with the folder.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-mpi-"))
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        address = os.path.join(folder, "command")
        listener.bind(address)
        listener.listen(count)
        output = stack.enter_context(log.open("wb"))
        launcher = subprocess.Popen(
            openmpi.command(count, sys.executable, "-m", module, address),
            env={**os.environ, **openmpi.environment, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_end_with_parent,
        )
        stack.callback(_end, launcher)
        ranks = _accept(listener, launcher, count, log)
        for rank in ranks:
            stack.callback(rank.close)
        for rank in ranks:
            rank.receive()
        yield ranks


def _accept(
    listener: socket.socket, launcher: subprocess.Popen[bytes], count: int, log: Path
) -> list[Rank]:
    controls: dict[int, Connection] = {}
    listener.settimeout(0.2)
    give_up = time.monotonic() + START_SECONDS
    while len(controls) < count:
        try:
            line, _ = listener.accept()
        except TimeoutError:
            if launcher.poll() is None and time.monotonic() < give_up:
                continue
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            tail = "".join(f"\n    {each[:300]}" for each in lines)
            raise PeerDead(
                f"bench box: {len(controls)} of {count} ranks of MPI started; the end of"
                f" {log}:{tail}"
            ) from None
        line.settimeout(None)
        control = Connection(line.detach())
        number = control.recv()
        if not isinstance(number, int):
            raise Internal(f"bench box: an MPI rank sent {number!r} instead of its number")
        controls[number] = control
    return [Rank(controls[number], number, log) for number in range(count)]


def _end_with_parent() -> None:
    # The launcher ends its ranks at SIGTERM. Ctrl-C reaches the whole group; the command ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(launcher: subprocess.Popen[bytes]) -> None:
    for order in (None, signal.SIGTERM, signal.SIGKILL):
        if order is not None:
            launcher.send_signal(order)
        try:
            launcher.wait(END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


@contextlib.contextmanager
def box_tasks(count: int, logs: Path) -> Iterator[list[Task]]:
    """Start `count` processes of `farwrite_bench.box.task`."""
    with contextlib.ExitStack() as stack:
        tasks = [
            stack.enter_context(
                Task(f"process {number}", MODULES + "task", {}, logs / f"task-{number}.log")
            )
            for number in range(count)
        ]
        for task in tasks:
            task.receive()
        yield tasks


@contextlib.contextmanager
def server_task(logs: Path) -> Iterator[Task]:
    """Start a process of `farwrite_bench.box.server`."""
    with Task("server", MODULES + "server", {}, logs / "server.log") as task:
        task.receive()
        yield task


@contextlib.contextmanager
def serving(service: str, size: int, clients: int, logs: Path) -> Iterator[str]:
    """Start a server process with one service; yields where its clients connect."""
    with server_task(logs) as task:
        endpoint = task.ask(Open(service, size, number=clients))
        if not isinstance(endpoint, str):
            raise Internal(f"bench box: the server answered {endpoint!r}; report this")
        yield endpoint
        task.ask(Close(service))
