"""What a worker of ``bench convergence`` does: the first one trains, the others run servers."""

from __future__ import annotations

import importlib
from typing import Any

from farwrite_bench.cluster.seat import start_server
from farwrite_bench.cluster.transport import FARWRITE
from farwrite_experiments.convergence.graph import Training
from farwrite_experiments.convergence.plan import Job
from farwrite_experiments.convergence.weights import Bound
from farwrite_experiments.train.plan import Join


class Trainer:
    """After `open` it has the methods of `Training`."""

    def __init__(self, tf: Any, join: Join) -> None:
        self._tf, self._server = tf, start_server(tf, join.seat)
        self._bound: Bound | None = None
        if join.seat.transport.protocol == FARWRITE.protocol:
            self._bound = importlib.import_module("farwrite.tensorflow").bound_shape
        self._training: Training | None = None

    def open(self, job: Job) -> None:
        """Build the graph of a job."""
        self._training = Training(self._tf, job, self._server.target, self._bound)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._training, name)
