"""Trains jobs on a cluster of four processes over one transport."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.seat import Look, Seat
from farwrite_bench.cluster.transport import Transport
from farwrite_bench.demo.bars import Bar
from farwrite_bench.demo.training.plan import (
    THREADS,
    WORKERS,
    Job,
    Mark,
    Order,
    Outcome,
    Progress,
    Run,
)

MakeBar = Callable[[str], Bar]


def train_all(
    transport: Transport, jobs: Sequence[Job], logs: Path, make_bar: MakeBar = Bar
) -> list[Run]:
    """Start the processes, train `jobs` one after the other, and end the processes.

    Raises
    ------
    PeerDead
        If a process fails. The message has the end of its log, which is in `logs`.
    """
    with contextlib.ExitStack() as stack:
        with make_bar(f"{transport.name}: 4 processes") as bar:
            servers, coordinator = stack.enter_context(_cluster(transport, logs))
            bar.result("ready")
        runs = []
        for job in jobs:
            way = ", synchronous" if job.synchronous else ""
            with make_bar(f"{transport.name}: {job.model.name}{way}") as bar:
                run = _train(transport, job, servers, coordinator, bar.progress)
                bar.result(
                    f"{run.outcome.seconds:6.1f} s, accuracy {run.outcome.test_accuracy:.1%}"
                )
            runs.append(run)
        return runs


@contextlib.contextmanager
def _cluster(transport: Transport, logs: Path) -> Iterator[tuple[list[ForkedTask], ForkedTask]]:
    addresses = free_addresses(2 + WORKERS)
    cluster = {"ps": addresses[:1], "chief": addresses[1:2], "worker": addresses[2:]}
    seats = [
        Seat(cluster, job, index, transport, THREADS)
        for job, index in [("ps", 0), *(("worker", index) for index in range(WORKERS))]
    ]
    with contextlib.ExitStack() as stack:

        def start(name: str, module: str) -> ForkedTask:
            log = logs / f"{transport.key}-{name.replace(':', '')}.log"
            return stack.enter_context(ForkedTask(name, module, transport.environment, log))

        servers = [start(seat.task, "farwrite_bench.cluster.server") for seat in seats]
        # Started last, so that it ends first, while its servers still answer.
        coordinator = start("chief:0", "farwrite_bench.demo.training.coordinator")
        for server, seat in zip(servers, seats, strict=True):
            server.send(seat)
        coordinator.send(Order(cluster, transport, THREADS))
        for task in (*servers, coordinator):
            task.receive()
        yield servers, coordinator


def _train(
    transport: Transport,
    job: Job,
    servers: Sequence[ForkedTask],
    coordinator: ForkedTask,
    progress: Callable[[float], None],
) -> Run:
    marks: list[list[Readings]] = []
    coordinator.send(job)
    while True:
        message = coordinator.receive()
        if isinstance(message, Progress):
            progress(message.steps / (job.steps + job.warm_up))
        elif isinstance(message, Mark):
            marks.append([*(_look(server) for server in servers), message.readings])
            coordinator.send("go on")
        elif isinstance(message, Outcome):
            before, after = marks
            return Run(job, transport, message, before, after)
        else:
            raise Internal(f"demo: unexpected message of the coordinator: {message!r}; report this")


def _look(server: ForkedTask) -> Readings:
    readings = server.ask(Look(memory=True))
    if not isinstance(readings, Readings):
        raise Internal(f"demo: unexpected answer of {server.name}: {readings!r}; report this")
    return readings
