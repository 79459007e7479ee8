"""The processes of a run: two servers for each transport, one for `local`, and the client.

The client runs stock TensorFlow. It opens sessions on the consumer of each transport and runs the
requested steps.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.readings import Readings, read
from farwrite_bench.cluster.seat import Look, Seat, Threads
from farwrite_bench.cluster.transport import Transport, forced
from farwrite_bench.tensor.plan import LOCAL, RAW, Case, Graph

# TensorFlow's defaults: one thread per core. TensorFlow's gRPC does not limit message sizes.
THREADS = Threads()


class RefusedError(Exception):
    """TensorFlow could not run the step."""


@dataclass(frozen=True)
class Bench:
    """The client, and the servers of each transport."""

    client: Control
    servers: dict[str, list[Control]]

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of `Client` and return what it returns.

        Raises
        ------
        RefusedError
            If TensorFlow raised an error.
        """
        answer = self.client.ask((method, arguments))
        if isinstance(answer, RefusedError):
            raise answer
        return answer

    def look(self, transport: str) -> list[Readings]:
        """Take the readings of all processes of this transport, and of the client."""
        return Group(self.client, self.servers[transport]).look()


@contextlib.contextmanager
def bench(
    transports: Sequence[Transport], logs: Path, fabric: str | None = None
) -> Iterator[Bench]:
    """Start all processes, and end them at the end. `fabric` is the one that Farwrite must use."""
    with contextlib.ExitStack() as stack:
        servers: dict[str, list[Control]] = {}
        targets = {}
        for transport in transports:
            key = transport.key
            jobs = ["worker"] if transport in (LOCAL, RAW) else ["ps", "worker"]
            addresses = dict(zip(jobs, free_addresses(len(jobs)), strict=True))
            cluster = {job: [address] for job, address in addresses.items()}
            targets[key] = f"grpc://{addresses['worker']}"
            variables = {**transport.environment, **forced(fabric), **transport.variables(cluster)}
            servers[key] = []
            for job in jobs:
                name, log = f"{key} {job}", logs / f"{key}-{job}.log"
                task = stack.enter_context(
                    Task(name, "farwrite_bench.tensor.raw", variables, log)
                    if transport is RAW
                    else ForkedTask(name, "farwrite_bench.cluster.server", variables, log)
                )
                task.send(Seat(cluster, job, 0, transport, THREADS))
                servers[key].append(task)
        client = stack.enter_context(ForkedTask("client", __name__, {}, logs / "client.log"))
        client.send(targets)
        for task in (client, *(task for tasks in servers.values() for task in tasks)):
            task.receive()
        yield Bench(client, servers)


class Client:
    """What the client's process does for `Bench.call`."""

    def __init__(self, tf: Any, targets: dict[str, str]) -> None:
        self._tf, self._targets = tf, targets
        self._opened: dict[str, Graph] = {}
        self._numbers = itertools.count(1)

    def open(self, transport: str, case: Case, graph: type[Graph]) -> None:
        """Make the graph and the variable of a case, and check one step."""
        target, number = self._targets[transport], next(self._numbers)
        self._opened[transport] = graph(self._tf, transport, target, case, number)

    def take(self, transport: str, empty: bool, count: int) -> list[float]:
        """Run steps of the open case, or empty ones, and return the seconds of each."""
        return self._opened[transport].take(empty, count)

    def close(self, transport: str) -> None:
        """Free the memory of the open case."""
        self._opened.pop(transport).close()


def main(control: Connection) -> None:
    """Run the client: answer the parent until it closes the control pipe."""
    tf: Any = importlib.import_module("tensorflow")
    client = Client(tf, control.recv())
    order: Any = Look()
    answer: object
    while True:
        if isinstance(order, Look):
            answer = read("client")
        else:
            method, arguments = order
            try:
                answer = getattr(client, method)(*arguments)
            except tf.errors.OpError as error:
                answer = RefusedError(f"{type(error).__name__}: {error.message}")
        control.send(answer)
        order = control.recv()
