"""The kinds of programs of ``bench step``, and the messages to a client."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.seat import Seat


@dataclass(frozen=True)
class Kind:
    """A kind of program, by the jobs of its tasks. Each job has one task."""

    key: str
    client: str
    """The job of the client, which runs the steps."""
    servers: tuple[str, ...]
    """The jobs that only run a server."""
    step: str
    """What a step is, for the notes."""


SESSION = Kind(
    "session",
    "worker",
    ("ps",),
    "a v1 session of the worker's own server adds 1 to a variable of the ps task; the worker adds,"
    " so the value travels there and back",
)
FUNCTION = Kind(
    "function",
    "chief",
    ("ps", "worker"),
    "a tf.function of the chief (experimental_connect_to_cluster) does the same with the tasks ps"
    " and worker",
)
PARAMETER_SERVER = Kind(
    "parameter-server",
    "chief",
    ("ps", "worker"),
    "the coordinator of a ParameterServerStrategy schedules a function on the worker, which does"
    " the same, and joins; in one process the function is called without a coordinator",
)
EAGER = Kind(
    "eager",
    "chief",
    ("worker",),
    "the chief runs one addition on the worker's device and fetches the result",
)
KINDS = {each.key: each for each in (SESSION, FUNCTION, PARAMETER_SERVER, EAGER)}


@dataclass(frozen=True)
class Begin:
    """The first message to a client: its kind of program, and its seat in the cluster."""

    kind: Kind
    seat: Seat


@dataclass(frozen=True)
class Count:
    """A request to a client: answer with the number of steps that the program's state shows."""
