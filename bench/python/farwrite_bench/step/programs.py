"""The programs whose steps are measured. Every step adds 1 to a number of another task.

Each function builds a program for a seat. With an empty cluster the same program runs in one
process, without devices of other tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from farwrite_bench.cluster.seat import Seat, start_server
from farwrite_bench.tensor.graph import session_config, timed


@dataclass(frozen=True)
class Program:
    """A program that is ready to take steps."""

    step: Callable[[], object]
    """Takes one step, and returns when it has ended in all tasks."""
    count: Callable[[], int]
    """Returns the number of steps taken, from the number that the steps changed."""
    server: object = None
    """The server in this process; it lives as long as the program."""

    def take(self, count: int, what: str) -> list[float]:
        """Take `count` steps, and return the seconds of each."""
        return timed(self.step, count)


def _session(tf: Any, seat: Seat) -> Program:
    server = start_server(tf, seat) if seat.cluster else None
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
    if seat.cluster:
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

    if not seat.cluster:
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
    if seat.cluster:
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


def _device(seat: Seat, job: str) -> str | None:
    return f"/job:{job}/task:0" if seat.cluster else None


def _cluster(tf: Any, seat: Seat) -> Any:
    return tf.train.ClusterSpec({job: list(tasks) for job, tasks in seat.cluster.items()})


def _connect(tf: Any, seat: Seat) -> None:
    tf.config.experimental_connect_to_cluster(
        _cluster(tf, seat),
        job_name=seat.job,
        task_index=seat.index,
        protocol=seat.transport.protocol,
    )


@dataclass(frozen=True)
class Kind:
    """A kind of program, by the jobs of its tasks. Each job has one task."""

    client: str
    """The job of the client, which runs the steps."""
    servers: tuple[str, ...]
    """The jobs that only run a server."""
    build: Callable[[Any, Seat], Program]
    step: str
    """What a step is, for the notes."""


KINDS = {
    "session": Kind(
        "worker",
        ("ps",),
        _session,
        "a v1 session of the worker's own server adds 1 to a variable of the ps task; the worker"
        " adds, so the value travels there and back",
    ),
    "function": Kind(
        "chief",
        ("ps", "worker"),
        _function,
        "a tf.function of the chief (experimental_connect_to_cluster) does the same with the tasks"
        " ps and worker",
    ),
    "parameter-server": Kind(
        "chief",
        ("ps", "worker"),
        _parameter_server,
        "the coordinator of a ParameterServerStrategy schedules a function on the worker, which"
        " does the same, and joins; in one process the function is called without a coordinator",
    ),
    "eager": Kind(
        "chief",
        ("worker",),
        _eager,
        "the chief runs one addition on the worker's device and fetches the result",
    ),
}
