"""The processes of each way to run a TensorFlow program: servers, and a client that takes steps.

The clients are `ForkedTask`s of this module.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar

from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group, RefusedError, Take, Turn, in_turn, totals
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.server import answer
from farwrite_bench.cluster.transport import Transport, forced, load_plugin
from farwrite_bench.failure import end_now, noting
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.report.parts import Row

Result = TypeVar("Result")
THREADS = Threads()
"""TensorFlow's defaults: one thread per core."""


class Program(Protocol):
    """What a client runs."""

    def take(self, count: int, what: str) -> list[float]:
        """Take `count` steps of one kind, and return the seconds of each.

        Raises
        ------
        RefusedError
            Instead of an error that must not end the client.
        """


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
    server: str = "farwrite_bench.cluster.server"
    """The module of the servers."""


def addresses(*jobs: str) -> dict[str, list[str]]:
    """Find an address for the only task of each job."""
    return {job: [address] for job, address in zip(jobs, free_addresses(len(jobs)), strict=True)}


class Running:
    """The processes of the ways that run, and why the others have failed."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.groups: dict[str, Group] = {}
        self.failed: dict[str, str] = {}
        """The reasons. Such a way has no turn any more, because its answers may come late."""
        self._stack = stack
        self._own: dict[str, contextlib.ExitStack] = {}

    @contextlib.contextmanager
    def trying(self, key: str) -> Iterator[None]:
        """Note a failure of a way, and end its processes; the other ways go on."""
        with noting(self.failed, key):
            yield
        if key in self.failed:
            self.groups.pop(key, None)
            end_now(self._own[key])

    def start(self, key: str, way: Way, fabric: str | None, logs: Path) -> None:
        """Start the processes of a way."""
        self._own[key] = self._stack.enter_context(contextlib.ExitStack())
        self.groups[key] = _start(key, way, fabric, logs, self._own[key])

    def each(self, act: Callable[[str, Group], Result]) -> dict[str, Result]:
        """Do something with every way, and return what the ways gave that did not fail."""
        found = {}
        for key in [*self.groups]:
            with self.trying(key):
                found[key] = act(key, self.groups[key])
        return found

    def in_turn(self, rounds: int) -> Iterator[tuple[int, str]]:
        """Yield every way in every round, with the round's number, until it fails."""
        for number, key in in_turn([*self.groups], rounds):
            if key in self.groups:
                yield number, key

    def only(self, figures: Mapping[str, Result]) -> dict[str, Result]:
        """Leave out the figures of ways that have failed."""
        return {key: figures[key] for key in figures if key in self.groups}


@contextlib.contextmanager
def started(ways: Mapping[str, Way], fabric: str | None, logs: Path) -> Iterator[Running]:
    """Start the processes of all ways, and end them at the end of the block."""
    with contextlib.ExitStack() as stack:
        running = Running(stack)
        for key, way in ways.items():
            with running.trying(key):
                running.start(key, way, fabric, logs)

        def wait(_: str, group: Group) -> None:
            for task in (*group.servers, group.client):
                task.receive()

        running.each(wait)
        yield running


def _start(
    key: str, way: Way, fabric: str | None, logs: Path, stack: contextlib.ExitStack
) -> Group:
    transport = way.transport
    # Once for all tasks: the variables may have ports that are free now.
    variables = transport.variables(way.cluster)
    environment = {**transport.environment, **forced(fabric), **variables}

    def start(what: str, module: str, first: object) -> ForkedTask:
        log = logs / f"{key.replace(' ', '-')}-{what}.log"
        task = stack.enter_context(ForkedTask(f"{key} {what}", module, environment, log))
        task.send(first)
        return task

    servers = [
        start(job, way.server, Seat(way.cluster, job, 0, transport, THREADS)) for job in way.servers
    ]
    # Started last, so that it ends first, while its servers still answer.
    return Group(start("client", __name__, way), servers)


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    way: Way = control.recv()
    load_plugin(way.client)
    program: Any = way.make(importlib.import_module("tensorflow"), *way.arguments)

    def act(order: Any) -> object:
        try:
            if isinstance(order, Take):
                return program.take(order.count, order.what)
            return order(program)  # made by operator.methodcaller
        except RefusedError as refusal:
            return refusal

    answer(control, "client", act)


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
