"""The kinds of programs and the ways of ``bench step``, and the messages to a client."""

from __future__ import annotations

from dataclasses import dataclass, replace

from farwrite_bench.cluster.seat import Seat
from farwrite_bench.cluster.transport import CONTROL, FARWRITE, GRPC
from farwrite_bench.tensor.plan import LOCAL

CONTROL_OFF = replace(
    FARWRITE,
    key="control off",
    name="Farwrite, control calls by gRPC",
    environment={**FARWRITE.environment, CONTROL: "off"},
)
CONTROL_ON = replace(FARWRITE, key="control on")
WAYS = {each.key: each for each in (GRPC, CONTROL_OFF, CONTROL_ON, LOCAL)}


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

FEWEST_ROUNDS = 5
TURN_SECONDS = 0.4
"""About how long a turn takes on an idle machine."""
FEWEST_STEPS, MOST_STEPS = 10, 400
"""Limits of the steps of a turn."""
START_SECONDS = 20.0
"""About how long the processes of a kind take to start, on two cores."""


@dataclass(frozen=True)
class StepPlan:
    """A whole run."""

    kinds: tuple[str, ...]
    ways: tuple[str, ...]
    rounds: int
    """Highest number of rounds. In each round each way has one turn."""
    kind_seconds: float
    """About how long the rounds of a kind may take. `FEWEST_ROUNDS` are run in any case."""
    busy: int = 0
    """Cores that a process keeps busy while the steps run."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""


def expected_seconds(plan: StepPlan) -> float:
    """Estimate the time of a run on two processors."""
    rounds = min(plan.rounds * len(plan.ways) * TURN_SECONDS, plan.kind_seconds)
    return len(plan.kinds) * (START_SECONDS + rounds)


@dataclass(frozen=True)
class Begin:
    """The first message to a client: its kind of program, and its seat in the cluster."""

    kind: Kind
    seat: Seat


@dataclass(frozen=True)
class Count:
    """A request to a client: answer with the number of steps that the program's state shows."""
