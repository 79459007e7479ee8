"""A worker of ``bench collective``, as a `ForkedTask`."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.group import Take, Turn
from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.seat import Seat
from farwrite_bench.cluster.server import answer
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.tensor.graph import timed

WARM_UP_STEPS = 1
"""Steps before each turn, which are not measured."""


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe.

    The first message is a `Seat` and how many float32 elements a step reduces. Each later one is a
    `Take`, which a `Turn` answers.
    """
    seat, elements = control.recv()
    step = _step(seat, elements)

    def turn(order: Take) -> Turn:
        timed(step, WARM_UP_STEPS)
        before = read(seat.task)
        seconds = timed(step, order.count)
        return Turn(seconds, [before], [read(seat.task)])

    answer(control, seat.task, turn)


def _step(seat: Seat, elements: int) -> Callable[[], None]:
    """Make the step: an all-reduce of a variable's value over the workers in a tf.function."""
    load_plugin(seat.transport)
    tf: Any = importlib.import_module("tensorflow")
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": seat.cluster,
            "task": {"type": seat.job, "index": seat.index},
            "rpc_layer": seat.transport.protocol,
        }
    )
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring)
    )
    with strategy.scope():
        variable = tf.Variable(tf.zeros([elements]))
    variable.assign(tf.fill([elements], float(seat.index + 1)))

    def add_up() -> Any:
        return tf.distribute.get_replica_context().all_reduce("sum", variable.read_value())

    def ends() -> Any:
        total = strategy.experimental_local_results(strategy.run(add_up))[0]
        return total[0], total[-1]  # nothing else is fetched

    reduce = tf.function(ends)
    workers = len(seat.cluster[seat.job])
    expected = workers * (workers + 1) / 2

    def step() -> None:
        found = [float(end) for end in reduce()]
        if found != [expected, expected]:
            raise Internal(f"bench: a reduction gave {found} instead of {expected}; report this")

    return step
