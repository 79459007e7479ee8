"""A worker of ``bench train``: ``python -m farwrite_bench.train.worker``.

Its first message is a `Seat`, and it answers with its readings when its server runs.
"""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster import child
from farwrite_bench.cluster.group import Take
from farwrite_bench.cluster.library import load_ops
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look, Seat, config
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.tensor.plan import LOCAL
from farwrite_bench.train.graph import Training
from farwrite_bench.train.plan import Check, Close, Create, Open


def _main(control: Connection) -> None:
    seat: Seat = control.recv()
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    load_ops()  # before a peer's graph needs them
    server = _server(tf, seat)
    sessions: list[Training] = []
    answer: object = read(seat.task)
    while True:
        control.send(answer)
        order = control.recv()
        answer = None
        if isinstance(order, Look):
            answer = read(seat.task)
        elif isinstance(order, Open):
            cluster = seat.transport.key != LOCAL.key
            sessions = [
                Training(tf, order.case, server.target, worker, cluster=cluster)
                for worker in order.sessions
            ]
        elif isinstance(order, Create):
            sessions[0].create()
        elif isinstance(order, Take):
            with ThreadPoolExecutor(len(sessions)) as pool:
                taken = [pool.submit(each.take, order.count) for each in sessions]
                answer = [each.result() for each in taken]
        elif isinstance(order, Check):
            answer = sessions[0].first_elements()
        elif isinstance(order, Close):
            if order.destroys:
                sessions[0].destroy()
            while sessions:
                sessions.pop().close()


def _server(tf: Any, seat: Seat) -> Any:
    return tf.distribute.Server(
        tf.train.ClusterSpec({job: list(tasks) for job, tasks in seat.cluster.items()}),
        job_name=seat.job,
        task_index=seat.index,
        protocol=seat.transport.protocol,
        config=config(tf, seat.threads),
        start=True,
    )


if __name__ == "__main__":
    child.run(_main)
