"""The client's process, as a `ForkedTask`.

It runs stock TensorFlow. It opens sessions on the consumer of each transport and runs the requested
steps.
"""

from __future__ import annotations

import importlib
import itertools
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.readings import read
from farwrite_bench.tensor.plan import (
    Close,
    Connect,
    Graph,
    Look,
    Open,
    Refused,
    Steps,
    Taken,
)

TASK = "client"


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    tf: Any = importlib.import_module("tensorflow")
    control.send(read(TASK))
    targets: dict[str, str] = {}
    opened: dict[str, Graph] = {}
    numbers = itertools.count(1)
    while True:
        order = control.recv()
        answer: object = None
        try:
            if isinstance(order, Connect):
                targets = order.targets
            elif isinstance(order, Open):
                key = order.transport
                opened[key] = order.graph(tf, key, targets[key], order.case, next(numbers))
            elif isinstance(order, Steps):
                answer = Taken(opened[order.transport].take(order.empty, order.count))
            elif isinstance(order, Close):
                opened.pop(order.transport).close()
            elif isinstance(order, Look):
                answer = read(TASK)
        except tf.errors.OpError as error:
            answer = Refused(f"{type(error).__name__}: {error.message}")
        control.send(answer)
