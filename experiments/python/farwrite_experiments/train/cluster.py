"""The processes of one way: servers and workers, or one process for all of the graph."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from typing import Any

from farwrite_bench.cluster import ways
from farwrite_bench.cluster.control import START_SECONDS, receive_all
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Group, Turn
from farwrite_bench.cluster.process import free_ports
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.transport import forced
from farwrite_experiments.cluster.machines import Machine, on_loopback
from farwrite_experiments.cluster.observed import Observed
from farwrite_experiments.cluster.processors import busy_seconds
from farwrite_experiments.train.plan import MIRRORED, Case, Layout, Way
from farwrite_experiments.train.worker import Trainer

STEP_SECONDS = 600.0
"""How long a step may take, and any other answer: of the largest network on a slow machine."""


@dataclass(frozen=True)
class Cluster:
    """The running processes of one way."""

    way: Way
    workers: list[ForkedTask]
    servers: list[ForkedTask]

    def open(self, case: Case) -> None:
        """Build the case's graph in the workers that take steps, and create its variables."""
        owners = _owners(case)
        self._ask(
            [
                methodcaller("open", case, sessions, number < owners)
                for number, sessions in enumerate(self._sessions(case))
            ]
        )

    def take(self, case: Case, count: int) -> Turn:
        """Take `count` steps in every session.

        Returns
        -------
        Turn
            The seconds of each step, of the session that took longest.
        """
        before = self.group.look()
        busy = busy_seconds()
        answers = self._ask([methodcaller("take", count)] * len(self._sessions(case)), steps=count)
        taken = [seconds for answer in answers for seconds in answer]
        busy = busy_seconds() - busy
        return Turn(max(taken, key=sum), before, self.group.look(), busy)

    def observed(self) -> list[Observed]:
        """Return the tensors that all tasks sent so far."""
        answers: list[Any] = [
            task.ask(methodcaller("observed")) for task in (*self.servers, *self.workers)
        ]
        return [each for answer in answers for each in answer]

    def checksums(self, case: Case) -> list[Any]:
        """Return the sums over the bits of each variable, of every worker that has its own."""
        return self._ask([methodcaller("checksums")] * _owners(case))

    def close(self, case: Case) -> None:
        """End the sessions, and free the variables."""
        taking, owners = len(self._sessions(case)), _owners(case)
        orders = [methodcaller("close", number < owners) for number in range(taking)]
        # The first worker is last: it frees the variables of all.
        self._ask(orders[::-1], self.workers[:taking][::-1])

    def call(self, method: str, *arguments: object, steps: int = 1) -> Any:
        """Call a method of the first worker's trainer, which takes `steps` steps."""
        return self._ask([methodcaller(method, *arguments)], steps=steps)[0]

    def _sessions(self, case: Case) -> list[tuple[int | None, ...]]:
        """Return the sessions of each worker that takes steps."""
        if case.mode == MIRRORED:
            return [(None,)] * case.workers
        if case.sync:
            return [(None,)]
        if self.way.is_local:
            return [tuple(range(case.workers))]
        return [(number,) for number in range(case.workers)]

    def _ask(
        self,
        orders: Sequence[methodcaller],
        workers: Sequence[ForkedTask] | None = None,
        *,
        steps: int = 1,
    ) -> list[Any]:
        """Give each worker its order, the first order to the first, and return the answers."""
        asked = (workers or self.workers)[: len(orders)]
        for worker, order in zip(asked, orders, strict=True):
            worker.send(order)
        beside = [each for each in (*self.servers, *self.workers) if each not in asked]
        return receive_all(asked, steps * STEP_SECONDS, beside)

    @property
    def group(self) -> Group:
        """The first worker as the client, and all other tasks."""
        return Group(self.workers[0], [*self.servers, *self.workers[1:]])


def _owners(case: Case) -> int:
    """Return how many workers have variables of their own; without, those of the first are all."""
    return case.workers if case.mode == MIRRORED else 1


def start(
    way: Way,
    layout: Layout,
    logs: Path,
    stack: contextlib.ExitStack,
    machines: Mapping[str, Sequence[Machine]] | None = None,
    trainer: type = Trainer,
) -> Cluster:
    """Start the processes of a way, which end with `stack`, and wait until they are ready.

    Parameters
    ----------
    machines : mapping, optional
        Those of each job's tasks, "ps" and "worker"; without it all are this one.
    trainer : type
        What the workers do, made of TensorFlow's module, a `Seat`, and whether they share a
        strategy. A server is a `Trainer` that nothing asks for steps.
    """
    alone = way.is_local and not layout.mirrored
    jobs = {"ps": 0, "worker": 1} if alone else {"ps": layout.servers, "worker": layout.workers}
    # TensorFlow's default is one thread per core in each pool. A process that does everything has
    # as many as the processes that it is compared with.
    together = len(os.sched_getaffinity(0)) * (layout.servers + layout.workers)
    threads = Threads(intra_op=together, inter_op=together) if alone else Threads()
    where = machines or {job: on_loopback(count) for job, count in jobs.items()}
    # A port that is free here is free in the network namespace of a machine as well.
    free = iter(free_ports(sum(jobs.values())))
    addresses = {
        job: [f"{where[job][index].address}:{next(free)}" for index in range(count)]
        for job, count in jobs.items()
        if count
    }
    environment = {
        **way.transport.environment,
        **forced(way.fabric),
        **way.transport.variables(addresses),
    }

    def task(job: str, index: int, trainer: type) -> ForkedTask:
        name, log = f"{way.key} {job}:{index}", f"{way.key.replace(' ', '-')}-{job}{index}.log"
        enter = where[job][index].enter
        made = ForkedTask(name, ways.__name__, environment, logs / log, first=enter)
        stack.enter_context(made)
        arguments = (Seat(addresses, job, index, way.transport, threads), layout.mirrored)
        made.send(ways.Way(way.transport, addresses, (), trainer, arguments, way.transport))
        return made

    # The workers end first, while their servers still answer.
    serving = [task("ps", index, Trainer) for index in range(jobs["ps"])]
    working = [task("worker", index, trainer) for index in range(jobs["worker"])]
    receive_all([*serving, *working], START_SECONDS)
    return Cluster(way, working, serving)
