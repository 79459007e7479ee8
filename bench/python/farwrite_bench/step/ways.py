"""The processes of each way to run a TensorFlow program: servers, and a client that takes steps.

The clients of ``bench step``, ``bench feed`` and ``bench assign`` are `ForkedTask`s of this module.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group, Take, Turn, totals
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, Threads
from farwrite_bench.cluster.transport import Transport, forced, load_plugin
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.report.parts import Row

THREADS = Threads()
"""TensorFlow's defaults: one thread per core."""


class Program(Protocol):
    """What a client runs."""

    def take(self, count: int, what: str) -> list[float]:
        """Take `count` steps of one kind, and return the seconds of each."""


@dataclass(frozen=True)
class Way:
    """The processes of one way."""

    transport: Transport
    """Of the servers."""
    cluster: Mapping[str, Sequence[str]]
    """The addresses of each job."""
    servers: Sequence[str]
    """The jobs that only run a server."""
    make: Callable[..., Program]
    """Makes the client's program of TensorFlow's module and of the `arguments`."""
    arguments: tuple[Any, ...]
    client: Transport
    """What the client loads."""


def addresses(*jobs: str) -> dict[str, list[str]]:
    """Find an address for the only task of each job."""
    return {job: free_addresses(1) for job in jobs}


@contextlib.contextmanager
def started(ways: Mapping[str, Way], fabric: str | None, logs: Path) -> Iterator[dict[str, Group]]:
    """Start the processes of all ways, and end them at the end of the block."""
    with contextlib.ExitStack() as stack:

        def start(key: str, what: str, module: str, first: object) -> ForkedTask:
            environment = {**ways[key].transport.environment, **forced(fabric)}
            log = logs / f"{key.replace(' ', '-')}-{what}.log"
            task = stack.enter_context(ForkedTask(f"{key} {what}", module, environment, log))
            task.send(first)
            return task

        groups = {}
        for key, way in ways.items():
            servers = []
            for job in way.servers:
                seat = Seat(way.cluster, job, 0, way.transport, THREADS)
                servers.append(start(key, job, "farwrite_bench.cluster.server", seat))
            # Started last, so that it ends first, while its servers still answer.
            groups[key] = Group(start(key, "client", __name__, way), servers)
        for group in groups.values():
            for task in (*group.servers, group.client):
                task.receive()
        yield groups


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    way: Way = control.recv()
    load_plugin(way.client)
    program: Any = way.make(importlib.import_module("tensorflow"), *way.arguments)
    answer: object = read("client")
    while True:
        control.send(answer)
        order = control.recv()
        if isinstance(order, Look):
            answer = read("client")
        elif isinstance(order, Take):
            answer = program.take(order.count, order.what)
        else:  # made by operator.methodcaller
            answer = order(program)


def medians_ms(turns: Mapping[str, Sequence[Turn]]) -> dict[str, list[float]]:
    """Return the median step of each turn, in milliseconds."""
    return {
        way: [1e3 * statistics.median(turn.seconds) for turn in of_way]
        for way, of_way in turns.items()
    }


def compared(
    figures: Mapping[str, Sequence[float]], way: str, other: str
) -> dict[str, float] | None:
    """Divide the figures of two ways round by round; None without the other one."""
    return ratio_of_rounds(figures[way], figures[other]) if other in figures else None


def steps_of(turns: Sequence[Turn]) -> int:
    """Count the steps of all turns."""
    return sum(len(turn.seconds) for turn in turns)


def spent_in(turns: Sequence[Turn], load: float) -> Row:
    """Make the part of a row that all ways have: what a step costs, and what was measured."""
    total, steps = totals(turns), steps_of(turns)
    return {
        "cpu_ms": round(1e3 * total["cpu_seconds"] / steps, 4),
        "socket_bytes": round(total["socket_bytes"] / steps, 1),
        "steps": steps,
        "rounds": len(turns),
        "load": round(load, 2),
    }
