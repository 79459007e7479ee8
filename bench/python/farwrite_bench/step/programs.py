"""The programs whose steps are measured. Every step adds 1 to a number of another task.

Each function builds a program for a seat. With the transport `LOCAL` the same program runs in one
process, without devices of other tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farwrite_bench.cluster.seat import Seat, start_server
from farwrite_bench.step.kinds import EAGER, FUNCTION, PARAMETER_SERVER, SESSION
from farwrite_bench.tensor.graph import session_config
from farwrite_bench.tensor.plan import LOCAL


@dataclass(frozen=True)
class Program:
    """A program that is ready to take steps."""

    step: Callable[[], object]
    """Takes one step, and returns when it has ended in all tasks."""
    count: Callable[[], int]
    """Returns the number of steps taken, from the number that the steps changed."""
    server: object = None
    """The server in this process; it lives as long as the program."""


def build(tf: Any, kind: str, seat: Seat) -> Program:
    """Build the program of a kind."""
    return _BUILDERS[kind](tf, seat)


def _session(tf: Any, seat: Seat) -> Program:
    server = None if _is_local(seat) else start_server(tf, seat)
    with tf.Graph().as_default() as graph:
        with tf.device(_device(seat, "ps")):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float64, shape=[], shared_name="total")
            begin = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(0.0, tf.float64))
            total = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float64)
        with tf.device(_device(seat, "worker")):
            more = total + 1.0
        with tf.device(_device(seat, "ps")):
            step = tf.raw_ops.AssignVariableOp(resource=handle, value=more)
    session = tf.compat.v1.Session(
        "" if server is None else server.target, graph=graph, config=session_config(tf)
    )
    session.run(begin)
    # The target is an operation, so nothing is fetched.
    return Program(session.make_callable(step), lambda: int(session.run(total)), server)


def _function(tf: Any, seat: Seat) -> Program:
    if not _is_local(seat):
        _connect(tf, seat)
    with tf.device(_device(seat, "ps")):
        total = tf.Variable(0.0, dtype=tf.float64)

    def step() -> None:
        with tf.device(_device(seat, "worker")):
            more = total.read_value() + 1.0
        with tf.device(_device(seat, "ps")):
            total.assign(more, read_value=False)

    return Program(tf.function(step), lambda: int(total.numpy()))


def _parameter_server(tf: Any, seat: Seat) -> Program:
    def add() -> None:
        # The worker adds, because the coordinator calls this there; the variable's task reads and
        # assigns.
        total.assign(total.read_value() + 1.0, read_value=False)

    if _is_local(seat):
        total = tf.Variable(0.0, dtype=tf.float64)
        return Program(tf.function(add), lambda: int(total.numpy()))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        _cluster(tf, seat),
        task_type=seat.job,
        task_id=seat.index,
        rpc_layer=seat.transport.protocol,
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0.0, dtype=tf.float64)
    function = tf.function(add)

    def step() -> None:
        coordinator.schedule(function)
        coordinator.join()

    return Program(step, lambda: int(total.numpy()))


def _eager(tf: Any, seat: Seat) -> Program:
    if not _is_local(seat):
        _connect(tf, seat)
    with tf.device(_device(seat, "worker")):
        one = tf.ones([], tf.float64)
        total = tf.zeros([], tf.float64)
    fetched = 0

    def step() -> None:
        nonlocal total, fetched
        with tf.device(_device(seat, "worker")):
            total = tf.add(total, one)
        fetched = int(total.numpy())

    return Program(step, lambda: fetched)


_BUILDERS = {
    SESSION.key: _session,
    FUNCTION.key: _function,
    PARAMETER_SERVER.key: _parameter_server,
    EAGER.key: _eager,
}


def _is_local(seat: Seat) -> bool:
    return seat.transport.key == LOCAL.key


def _device(seat: Seat, job: str) -> str | None:
    return None if _is_local(seat) else f"/job:{job}/task:0"


def _cluster(tf: Any, seat: Seat) -> Any:
    return tf.train.ClusterSpec({job: list(tasks) for job, tasks in seat.cluster.items()})


def _connect(tf: Any, seat: Seat) -> None:
    tf.config.experimental_connect_to_cluster(
        _cluster(tf, seat),
        job_name=seat.job,
        task_index=seat.index,
        protocol=seat.transport.protocol,
    )
