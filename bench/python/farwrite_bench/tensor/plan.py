"""What is measured, and what the client process is told."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED, STOCK_PROTOCOL, Transport
from farwrite_bench.plan import GIB, KIB, MIB

LOCAL = Transport("local", "one process", STOCK_PROTOCOL)
"""Producer and consumer in one server: what the computation alone takes."""
RAW = Transport("raw", "raw socket", STOCK_PROTOCOL)
"""No TensorFlow: the same bytes through one tuned socket, the limit of a fabric between hosts."""
TRANSPORTS = {each.key: each for each in (GRPC, STAGED, FARWRITE, LOCAL, RAW)}


def _ours(key: str, name: str, fabric: str, policy: str, landing: str = "on") -> Transport:
    return Transport(
        key,
        name,
        FARWRITE.protocol,
        {
            "FARWRITE_FABRIC": fabric,
            "FARWRITE_TF_ALLOCATION": policy,
            "FARWRITE_TF_LANDING": landing,
        },
    )


ABLATIONS = {
    each.key: each
    for each in (
        GRPC,
        _ours("request+copy", "tcp: asked for, staged", "tcp", "off", "off"),
        _ours("request", "tcp: asked for, not copied", "tcp", "unified", "off"),
        _ours("push", "tcp: pushed into place", "tcp", "unified"),
        _ours("shm off", "shm: lent, staged", "shm", "off"),
        _ours("shm traced", "shm: lent, traced sites", "shm", "traced"),
        _ours("shm unified", "shm: lent", "shm", "unified"),
        LOCAL,
    )
}
"""What each part of the design is worth: without it, and with it."""
KNOWN = {**TRANSPORTS, **ABLATIONS}
FABRICS = ("shm", "tcp")
RAW_TARGET, RAW_TARGET_FROM = 0.85, 16 * MIB
"""What Farwrite over tcp should reach of the raw socket, and from which size on."""

SLICE = "slice"
REDUCE_MAX = "reduce_max"
CHAIN = "chain"
EMPTY = "empty"
PARALLEL = "parallel"
NETWORK = "network"
CONSUMERS = (SLICE, REDUCE_MAX)

GRPC_LIMIT = 2**31
"""A tensor of these many bytes is no message for TensorFlow's gRPC. TensorFlow 2.21 says nothing:
the step does not end, not even by its deadline."""

DEFAULT_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
CHAIN_HOPS = 20
CHAIN_BYTES = 256
PARALLEL_TENSORS = 20

MEMORY_PER_SIZE = {"grpc": 4.0, "staged": 2.5, "farwrite": 1.5, "local": 1.5, "raw": 2.0}
"""What a transport's servers hold at once, in tensors."""
TCP_MEMORY_PER_SIZE = 1.0
"""And more of it where the consumer's task has bytes of its own."""


@dataclass(frozen=True)
class Case:
    """A consumer and a size."""

    consumer: str
    size: int
    """Bytes of the tensor, or of each one of a chain."""

    def includes(self, transport: str) -> bool:
        """Whether `transport` can do it, and has something to say to it."""
        if transport == GRPC.key:
            return self.size < GRPC_LIMIT
        if transport == RAW.key:
            return self.consumer == SLICE  # which does not compute with the bytes either
        return transport != LOCAL.key or self.consumer in (REDUCE_MAX, PARALLEL, CHAIN)


@dataclass(frozen=True)
class TensorPlan:
    """A whole run."""

    transports: tuple[str, ...]
    cases: tuple[Case, ...]
    rounds: int
    """At most; each transport has one turn a round."""
    case_seconds: float
    """About how long a case may take; at least `FEWEST_ROUNDS` are run, though."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to it."""


FEWEST_ROUNDS = 5
TURN_SECONDS = 0.04
"""Of steps with a tensor. Short, so that both kinds of steps see the same neighbours."""
MOST_STEPS = 20
FEWEST_STEPS = 2


@dataclass(frozen=True)
class Connect:
    """To the client: where to open sessions, by transport."""

    targets: dict[str, str]


@dataclass(frozen=True)
class Open:
    """To the client: make the graph of a case, its variable, and check one step's result."""

    transport: str
    case: Case


@dataclass(frozen=True)
class Steps:
    """To the client: run that many steps of the open case, or of the empty step."""

    transport: str
    empty: bool
    count: int


@dataclass(frozen=True)
class Close:
    """To the client: give the open case's memory back."""

    transport: str


@dataclass(frozen=True)
class Look:
    """To the client: your own readings."""


@dataclass(frozen=True)
class Taken:
    """From the client: seconds of each step, or the result of `Open`'s step in `wrong`."""

    seconds: list[float]


@dataclass(frozen=True)
class Refused:
    """From the client: TensorFlow's error."""

    message: str


@dataclass(frozen=True)
class Block:
    """One transport's turn in one round."""

    empty: list[float]
    """Seconds of each step without a tensor."""
    full: list[float]
    """And with it."""
    before: list[Readings]
    """Around the full steps."""
    after: list[Readings]
