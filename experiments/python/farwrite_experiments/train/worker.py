"""What a task of a training does: its server or its strategy, and its share of the steps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from farwrite_bench.cluster.seat import Seat, start_server
from farwrite_bench.tensor.graph import timed
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.cluster.observed import Observed, observed
from farwrite_experiments.library import load
from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.graph import Placement, Training, first_value, gradients_of
from farwrite_experiments.train.plan import Case
from farwrite_experiments.train.variables import Descent, checksum


class Trainer:
    """The sessions of a case in this worker, or its part of a MultiWorkerMirroredStrategy."""

    def __init__(self, tf: Any, seat: Seat, mirrored: bool) -> None:
        load()  # before a peer's graph needs its operations
        local = seat.transport.key == LOCAL.key
        self._build: Callable[[Case, int | None], Training | MirroredTraining]
        if mirrored:
            among = tf.distribute.get_strategy() if local else strategy(tf, seat)
            self._build = lambda case, _: MirroredTraining(tf, case, among)
        else:
            server = start_server(tf, seat)
            self._build = lambda case, worker: Training(
                tf, case, server.target, worker, cluster=not local
            )
        self._trainings: list[Training | MirroredTraining] = []

    def open(self, case: Case, sessions: Sequence[int | None], creates: bool) -> None:
        """Build the graph of a case, for the steps of each of these workers in a session.

        None stands for the steps of all workers together. Also create the variables if this worker
        does it.
        """
        self._trainings = [self._build(case, worker) for worker in sessions]
        if creates:
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

    The strategy `among` all workers reduces the gradients. The default strategy, of one worker
    alone, has nothing to reduce.
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
