"""The graph of a case, and the session that takes its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farwrite_bench.tensor.graph import session_config, timed
from farwrite_experiments.train.placement import Placement
from farwrite_experiments.train.plan import MODEL, Case
from farwrite_experiments.train.tower import gradients_of
from farwrite_experiments.train.variables import variables_of

SEED = 7


class Training:
    """A session that takes the steps of a case.

    Parameters
    ----------
    tf : module
        TensorFlow.
    case : Case
        What to build.
    target : str
        The session's target.
    worker : int, optional
        The worker whose steps the session takes. None takes the steps of all of them together, and
        applies the mean of their gradients.
    cluster : bool
        Whether there are tasks. Otherwise the target's one process has everything.
    """

    def __init__(
        self, tf: Any, case: Case, target: str, worker: int | None, *, cluster: bool
    ) -> None:
        workers = range(case.workers) if worker is None else [worker]
        if case.mode == MODEL:
            workers = [0]
        with tf.Graph().as_default() as graph:
            tf.compat.v1.random.set_random_seed(SEED)
            placement = Placement(tf, case, cluster=cluster)
            variables = variables_of(tf, case, placement)
            towers = [
                gradients_of(tf, case, variables.values.__getitem__, placement, number)
                for number in workers
            ]
            updates = [
                variables.update(variable, [tower[variable] for tower in towers])
                for variable in case.network.variables
            ]
            step = tf.group(updates)
            self._create = tf.group(variables.create())
            self._checksums = variables.checksums()
            self._destroy = tf.group(variables.destroy())
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        # The target is an operation, so nothing is fetched.
        self._step: Callable[[], object] = self._session.make_callable(step)

    def create(self) -> None:
        """Create the variables."""
        self._session.run(self._create)

    def take(self, count: int) -> list[float]:
        """Take steps, and return the seconds of each."""
        return timed(self._step, count)

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return [int(value) for value in self._session.run(self._checksums)]

    def destroy(self) -> None:
        """Free the variables."""
        self._session.run(self._destroy)

    def close(self) -> None:
        """End the session."""
        self._session.close()
