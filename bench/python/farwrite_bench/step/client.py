"""The process that runs the steps of one way, as a `ForkedTask`."""

from __future__ import annotations

import importlib
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.group import Take
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Look
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.step.kinds import Begin, Count
from farwrite_bench.step.programs import build
from farwrite_bench.tensor.graph import timed


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    begin: Begin = control.recv()
    load_plugin(begin.seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    program = build(tf, begin.kind.key, begin.seat)
    answer: object = read(begin.seat.task)
    while True:
        control.send(answer)
        order = control.recv()
        if isinstance(order, Take):
            answer = timed(program.step, order.count)
        elif isinstance(order, Count):
            answer = program.count()
        elif isinstance(order, Look):
            answer = read(begin.seat.task)
