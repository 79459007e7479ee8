"""A worker of ``bench collective``, as a `ForkedTask`."""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.readings import Readings, read
from farwrite_bench.cluster.transport import Transport, load_plugin


@dataclass(frozen=True)
class Join:
    """The first message to a worker: its place, and how many float32 elements it reduces."""

    addresses: tuple[str, ...]
    index: int
    transport: Transport
    elements: int


@dataclass(frozen=True)
class Reduce:
    """A request for `warm_up` unmeasured reductions and `steps` measured ones."""

    steps: int
    warm_up: int


@dataclass(frozen=True)
class Reduced:
    """The seconds of each measured reduction, and the readings before and after them."""

    seconds: list[float]
    before: Readings
    after: Readings


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    join: Join = control.recv()
    step = _step(join)
    task = f"worker:{join.index}"
    control.send(read(task))
    while True:
        order: Reduce = control.recv()
        for _ in range(order.warm_up):
            step()
        before = read(task)
        seconds = []
        for _ in range(order.steps):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        control.send(Reduced(seconds, before, read(task)))


def _step(join: Join) -> Callable[[], None]:
    """Make the step: an all-reduce of a variable's value over the workers in a tf.function."""
    load_plugin(join.transport)
    tf: Any = importlib.import_module("tensorflow")
    os.environ["TF_CONFIG"] = json.dumps(
        {
            "cluster": {"worker": join.addresses},
            "task": {"type": "worker", "index": join.index},
            "rpc_layer": join.transport.protocol,
        }
    )
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(implementation=ring)
    )
    with strategy.scope():
        variable = tf.Variable(tf.zeros([join.elements]))
    variable.assign(tf.fill([join.elements], float(join.index + 1)))

    def add_up() -> Any:
        return tf.distribute.get_replica_context().all_reduce("sum", variable.read_value())

    def ends() -> Any:
        total = strategy.experimental_local_results(strategy.run(add_up))[0]
        return total[0], total[-1]  # nothing else is fetched

    reduce = tf.function(ends)
    workers = len(join.addresses)
    expected = workers * (workers + 1) / 2

    def step() -> None:
        found = [float(end) for end in reduce()]
        if found != [expected, expected]:
            raise Internal(f"bench: a reduction gave {found} instead of {expected}; report this")

    return step
