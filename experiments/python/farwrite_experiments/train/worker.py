"""A task of a training, as a `ForkedTask`: its server or its strategy, and its share of the steps.

Its first message is a `Join`, and it answers with its readings when its server runs. Each later
message is a `Look`, or a call of a method of the join's trainer, by `operator.methodcaller`.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, start_server
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.tensor.graph import timed
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.cluster.observed import Observed, observed
from farwrite_experiments.library import load_ops
from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.graph import Placement, Training, first_value, gradients_of
from farwrite_experiments.train.plan import Case, Join
from farwrite_experiments.train.variables import Descent, checksum


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    join: Join = control.recv()
    load_plugin(join.seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    load_ops()  # before a peer's graph needs them
    trainer = importlib.import_module(join.trainer).Trainer(tf, join)
    order: Any = Look()
    while True:
        looks = isinstance(order, Look)
        control.send(read(join.seat.task, order.memory) if looks else order(trainer))
        order = control.recv()


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
            return list(pool.map(lambda training: training.take(count), self._trainings))

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return self._trainings[0].checksums()

    def observed(self) -> list[Observed]:
        """Return what this process sent over each edge that carries tensors."""
        return observed()

    def close(self, destroys: bool) -> None:
        """End the sessions, after the variables are freed if this worker does it."""
        for number, training in enumerate(self._trainings):
            training.close(destroys and number == 0)
        self._trainings = []


def strategy(tf: Any, seat: Seat) -> Any:
    """Make the strategy of a seat, which reduces gradients by TensorFlow's ring."""
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {job: list(tasks) for job, tasks in seat.cluster.items()},
            "task": {"type": seat.job, "index": seat.index},
            "rpc_layer": seat.transport.protocol,
        }
    )
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    return tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring)
    )


class MirroredTraining:
    """The steps of one worker that has all variables, with the methods of `Training`.

    Parameters
    ----------
    tf : module
        TensorFlow.
    case : Case
        What to build.
    among : tf.distribute.Strategy
        Reduces the gradients. The default strategy, of one worker alone, has nothing to reduce.
    """

    def __init__(self, tf: Any, case: Case, among: Any) -> None:
        self._tf, self._case, self._among = tf, case, among
        self._variables: dict[Variable, Any] = {}
        self._step: Callable[[], object] = lambda: None

    def create(self) -> None:
        """Create the variables, together with the other workers."""
        with self._among.scope():
            self._variables = {
                each: self._tf.Variable(first_value(self._tf, self._case, number, each))
                for number, each in enumerate(self._case.network.variables)
            }
        step = self._tf.function(lambda: self._among.run(self._replica), autograph=False)
        self._step = lambda: step()

    def take(self, count: int) -> list[float]:
        """Take steps, and return the seconds of each."""
        return timed(self._step, count)

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        local = self._among.experimental_local_results
        values = [local(each)[0].read_value() for each in self._variables.values()]
        return [int(checksum(self._tf, value)) for value in values]

    def close(self, destroys: bool) -> None:
        """Free the variables if it `destroys` them. There is no session to end."""
        if destroys:
            self._variables, self._step = {}, lambda: None

    def _replica(self) -> None:
        tf = self._tf
        placement = Placement(tf, self._case, cluster=False)
        values = {each: variable.read_value() for each, variable in self._variables.items()}
        found = gradients_of(tf, self._case, values.__getitem__, placement, 0)
        gradients = [found[each] for each in self._variables]
        replicas = self._among.num_replicas_in_sync
        if replicas > 1:
            gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        for variable, gradient in zip(self._variables.values(), gradients, strict=True):
            Descent().apply(tf, variable.handle, (), gradient, replicas)
