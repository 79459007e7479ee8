"""The client's process, as a `ForkedTask`.

It runs stock TensorFlow. It opens sessions on the consumer of each transport and runs the requested
steps.
"""

from __future__ import annotations

import importlib
import itertools
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.assign.graph import ASSIGN, AssignCase
from farwrite_bench.cluster.readings import read
from farwrite_bench.tensor.graph import OpenCase
from farwrite_bench.tensor.network import NetworkCase
from farwrite_bench.tensor.plan import (
    NETWORK,
    RAW,
    Close,
    Connect,
    Look,
    Open,
    Refused,
    Steps,
    Taken,
)
from farwrite_bench.tensor.raw import RawCase

TASK = "client"


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    tf: Any = importlib.import_module("tensorflow")
    control.send(read(TASK))
    targets: dict[str, str] = {}
    opened: dict[str, OpenCase | NetworkCase | AssignCase | RawCase] = {}
    values = itertools.count(1)
    while True:
        order = control.recv()
        answer: object = None
        try:
            if isinstance(order, Connect):
                targets = order.targets
            elif isinstance(order, Open):
                key, number = order.transport, next(values)
                if key == RAW.key:
                    opened[key] = RawCase(targets[key], order.case, number)
                elif order.case.consumer == ASSIGN:
                    opened[key] = AssignCase(tf, key, targets[key], order.case)
                elif order.case.consumer == NETWORK:
                    opened[key] = NetworkCase(tf, targets[key], order.case)
                else:
                    opened[key] = OpenCase(tf, key, targets[key], order.case, float(number))
            elif isinstance(order, Steps):
                answer = Taken(opened[order.transport].take(order.empty, order.count))
            elif isinstance(order, Close):
                opened.pop(order.transport).close()
            elif isinstance(order, Look):
                answer = read(TASK)
        except tf.errors.OpError as error:
            answer = Refused(f"{type(error).__name__}: {error.message}")
        control.send(answer)
