"""A worker of ``bench convergence``, as a `ForkedTask`.

Its first message is a `Join`, and it answers with its readings when its server runs. The first
worker gets the orders; the others only run their servers.
"""

from __future__ import annotations

import importlib
from multiprocessing.connection import Connection
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.group import Take
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, start_server
from farwrite_bench.cluster.transport import FARWRITE, Transport, load_plugin
from farwrite_experiments.cluster.observed import Observe, observed
from farwrite_experiments.convergence.graph import Training
from farwrite_experiments.convergence.plan import Begin, Evaluate, Open
from farwrite_experiments.convergence.weights import Bound
from farwrite_experiments.train.plan import Check, Join


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    join: Join = control.recv()
    seat = join.seat
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    server = start_server(tf, seat)
    training: Training | None = None
    answer: object = read(seat.task)
    while True:
        control.send(answer)
        order = control.recv()
        if isinstance(order, Look):
            answer = read(seat.task, order.memory)
        elif isinstance(order, Observe):
            answer = observed()
        elif isinstance(order, Open):
            training = Training(tf, order.job, server.target, _bound(seat.transport))
            answer = None
        elif training is not None:
            answer = _answer(training, order)
        else:
            raise Internal(f"bench convergence: {order!r} came before Open; report this")


def _answer(training: Training, order: object) -> object:
    if isinstance(order, Begin):
        training.begin(order.seed)
        return None
    if isinstance(order, Take):
        return training.take(order.count)
    if isinstance(order, Evaluate):
        return training.quality()
    if isinstance(order, Check):
        return training.checksums()
    raise Internal(f"bench convergence: unknown order {order!r}; report this")


def _bound(transport: Transport) -> Bound | None:
    """Return what declares largest shapes, in a process that has the plug-in."""
    if transport.protocol != FARWRITE.protocol:
        return None
    bound: Bound = importlib.import_module("farwrite.tensorflow").bound_shape
    return bound
