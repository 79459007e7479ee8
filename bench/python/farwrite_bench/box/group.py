"""The processes of one emulation: a server and its workers, and the orders to them."""

from __future__ import annotations

import contextlib
import functools
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

from farwrite.errors import Internal, PeerDead
from farwrite_bench.box.openmpi import OpenMpi
from farwrite_bench.box.orders import Close, Open
from farwrite_bench.cluster.child import end_with_parent
from farwrite_bench.cluster.control import START_SECONDS, Control, end_of
from farwrite_bench.cluster.process import Task

MODULES = "farwrite_bench.box."
END_SECONDS = 10.0
TURN_SECONDS = 300.0
"""The longest that any order may take."""


def ask(members: Sequence[Control], order: object) -> list[object]:
    """Send an order to all members, then return all answers."""
    for member in members:
        member.send(order)
    return [member.receive(TURN_SECONDS) for member in members]


@contextlib.contextmanager
def mpi_ranks(
    openmpi: OpenMpi, count: int, log: Path, module: str = MODULES + "mpi_rank"
) -> Iterator[list[Control]]:
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
            # The launcher ends its ranks at SIGTERM.
            preexec_fn=functools.partial(end_with_parent, signal.SIGTERM),
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
) -> list[Control]:
    connections: dict[int, Connection] = {}
    listener.settimeout(0.2)
    give_up = time.monotonic() + START_SECONDS
    while len(connections) < count:
        try:
            line, _ = listener.accept()
        except TimeoutError:
            if launcher.poll() is None and time.monotonic() < give_up:
                continue
            raise PeerDead(
                f"bench box: {len(connections)} of {count} ranks of MPI started; {end_of(log)}"
            ) from None
        line.settimeout(None)
        connection = Connection(line.detach())
        number = connection.recv()
        if not isinstance(number, int):
            raise Internal(f"bench box: an MPI rank sent {number!r} instead of its number")
        connections[number] = connection
    return [Control(connections[number], f"MPI rank {number}", log) for number in range(count)]


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
