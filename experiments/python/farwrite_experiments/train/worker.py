"""A worker of ``bench train``, as a `ForkedTask`.

Its first message is a `Join`, and it answers with its readings when its server runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.group import Take
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, start_server
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.cluster.observed import Observe, observed
from farwrite_experiments.library import load_ops
from farwrite_experiments.train.graph import Training
from farwrite_experiments.train.mirrored import MirroredTraining, strategy
from farwrite_experiments.train.plan import Case, Check, Close, Create, Join, Open


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    join: Join = control.recv()
    seat = join.seat
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    load_ops()  # before a peer's graph needs them
    build = _mirrored(tf, seat) if join.mirrored else _sessions(tf, seat)
    trainings: list[Training | MirroredTraining] = []
    answer: object = read(seat.task)
    while True:
        control.send(answer)
        order = control.recv()
        answer = None
        if isinstance(order, Look):
            answer = read(seat.task)
        elif isinstance(order, Observe):
            answer = observed()
        elif isinstance(order, Open):
            trainings = [build(order.case, worker) for worker in order.sessions]
        elif isinstance(order, Create):
            trainings[0].create()
        elif isinstance(order, Take):
            with ThreadPoolExecutor(len(trainings)) as pool:
                taken = [pool.submit(each.take, order.count) for each in trainings]
                answer = [each.result() for each in taken]
        elif isinstance(order, Check):
            answer = trainings[0].checksums()
        elif isinstance(order, Close):
            if order.destroys:
                trainings[0].destroy()
            while trainings:
                trainings.pop().close()


Build = Callable[[Case, int | None], Training | MirroredTraining]


def _sessions(tf: Any, seat: Seat) -> Build:
    server = start_server(tf, seat)
    cluster = seat.transport.key != LOCAL.key

    def build(case: Case, worker: int | None) -> Training:
        return Training(tf, case, server.target, worker, cluster=cluster)

    return build


def _mirrored(tf: Any, seat: Seat) -> Build:
    alone = seat.transport.key == LOCAL.key
    among = tf.distribute.get_strategy() if alone else strategy(tf, seat)
    return lambda case, _: MirroredTraining(tf, case, among)
