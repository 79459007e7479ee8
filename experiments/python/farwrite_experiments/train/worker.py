"""A task of a training, as a `ForkedTask`: its server, and its share of the steps.

Its first message is a `Join`, and it answers with its readings when its server runs. Each later
message is a `Call` of a method of the join's trainer, a `Look` or an `Observe`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, start_server
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.cluster.observed import Observe, observed
from farwrite_experiments.library import load_ops
from farwrite_experiments.train.graph import Training
from farwrite_experiments.train.mirrored import MirroredTraining, strategy
from farwrite_experiments.train.plan import Case, Join


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    join: Join = control.recv()
    load_plugin(join.seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    load_ops()  # before a peer's graph needs them
    trainer = importlib.import_module(join.trainer).Trainer(tf, join)
    answer: object = read(join.seat.task)
    while True:
        control.send(answer)
        order = control.recv()
        if isinstance(order, Look):
            answer = read(join.seat.task, order.memory)
        elif isinstance(order, Observe):
            answer = observed()
        else:
            answer = getattr(trainer, order.method)(*order.arguments)


class Trainer:
    """The sessions of a case in this worker, or its part of a MultiWorkerMirroredStrategy."""

    def __init__(self, tf: Any, join: Join) -> None:
        local = join.seat.transport.key == LOCAL.key
        self._build: Callable[[Case, int | None], Training | MirroredTraining]
        if join.mirrored:
            among = tf.distribute.get_strategy() if local else strategy(tf, join.seat)
            self._build = lambda case, _: MirroredTraining(tf, case, among)
        else:
            server = start_server(tf, join.seat)
            self._build = lambda case, worker: Training(
                tf, case, server.target, worker, cluster=not local
            )
        self._trainings: list[Training | MirroredTraining] = []

    def open(self, case: Case, sessions: Sequence[int | None]) -> None:
        """Build the graph of a case, for the steps of each of these workers in a session.

        None stands for the steps of all workers together.
        """
        self._trainings = [self._build(case, worker) for worker in sessions]

    def create(self) -> None:
        """Create the variables."""
        self._trainings[0].create()

    def take(self, count: int) -> list[list[float]]:
        """Take steps in all sessions at once, and return the seconds of each."""
        with ThreadPoolExecutor(len(self._trainings)) as pool:
            taken = [pool.submit(each.take, count) for each in self._trainings]
            return [each.result() for each in taken]

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return self._trainings[0].checksums()

    def close(self, destroys: bool) -> None:
        """End the sessions, after the variables are freed if this worker does it."""
        if destroys:
            self._trainings[0].destroy()
        while self._trainings:
            self._trainings.pop().close()
