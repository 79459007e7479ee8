"""A case under MultiWorkerMirroredStrategy: every worker has all variables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from farwrite_bench.cluster.seat import Seat
from farwrite_bench.tensor.graph import timed
from farwrite_experiments.networks.outline import Variable
from farwrite_experiments.train.optimizers import RATE
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import Case
from farwrite_experiments.train.tower import gradients_of
from farwrite_experiments.train.variables import checksum, first_value


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
    """The steps of one worker, with the methods of `Training`.

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
        values = [self._among.experimental_local_results(each)[0] for each in self._of_all()]
        return [int(checksum(self._tf, value.read_value())) for value in values]

    def destroy(self) -> None:
        """Free the variables."""
        self._variables = {}
        self._step = lambda: None

    def close(self) -> None:
        """Do nothing: there is no session."""

    def _of_all(self) -> list[Any]:
        return list(self._variables.values())

    def _replica(self) -> None:
        tf = self._tf
        placement = Placement(tf, self._case, cluster=False)
        values = {each: variable.read_value() for each, variable in self._variables.items()}
        found = gradients_of(tf, self._case, values.__getitem__, placement, 0)
        gradients = [found[each] for each in self._variables]
        if self._among.num_replicas_in_sync > 1:
            gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        for variable, gradient in zip(self._of_all(), gradients, strict=True):
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle,
                alpha=tf.constant(RATE / self._among.num_replicas_in_sync),
                delta=gradient,
            )
