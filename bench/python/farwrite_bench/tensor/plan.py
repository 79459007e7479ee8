"""The cases and transports of a run, and the messages to and from the client process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from farwrite_bench.benchmarks import suites
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.transport import (
    FARWRITE,
    GRPC,
    STAGED,
    STOCK_PROTOCOL,
    Transport,
)
from farwrite_bench.sizes import GIB, KIB, MIB

LOCAL = Transport("local", "one process", STOCK_PROTOCOL)
"""Producer and consumer in one server: the time of the computation alone."""
RAW = Transport("raw", "raw socket", STOCK_PROTOCOL)
"""The same bytes through one tuned socket without TensorFlow: the limit between hosts."""
_ADDED = [each for suite in suites() for each in suite.TRANSPORTS]
TRANSPORTS = {each.key: each for each in (GRPC, *_ADDED, STAGED, FARWRITE, LOCAL, RAW)}
"""The transports by key, with those that other distributions add."""
RAW_TARGET, RAW_TARGET_FROM = 0.85, 16 * MIB
"""The target share of the raw socket's bandwidth over tcp, and the size from which it holds."""

SLICE = "slice"
REDUCE_MAX = "reduce_max"
CHAIN = "chain"
PARALLEL = "parallel"
CONSUMERS = (SLICE, REDUCE_MAX)
"""The consumers that are measured at every size."""

GRPC_LIMIT = 2**31
"""TensorFlow's gRPC cannot send a tensor of this many bytes. TensorFlow 2.21 reports no error: the
step never ends, not even at its deadline."""
DEFAULT_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
QUICK_SIZES = (4 * KIB, MIB, 64 * MIB)
ROUNDS, QUICK_ROUNDS = 25, 3
CHAIN_HOPS = 20
CHAIN_BYTES = 256
PARALLEL_TENSORS = 20
PARALLEL_BYTES = 4 * KIB

MEMORY_PER_SIZE = {
    "grpc": 4.0,
    "farwrite": 1.5,
    "local": 1.5,
    "raw": 2.0,
}
OTHER_MEMORY_PER_SIZE = 2.5
"""Memory of a transport's servers, in tensors."""
TCP_MEMORY_PER_SIZE = 1.0
"""Additional memory over tcp, where the consumer's task has its own bytes."""
SPARE_BYTES = 4 * GIB
"""Memory for the interpreters, each of which loads TensorFlow."""


def memory_of(size: int, transports: Sequence[Transport], *, over_tcp: bool) -> float:
    """Return the memory of a run with a tensor of `size` bytes; the small cases need little."""
    return bool(size) * SPARE_BYTES + size * sum(
        MEMORY_PER_SIZE.get(each.key, OTHER_MEMORY_PER_SIZE)
        + (TCP_MEMORY_PER_SIZE if over_tcp and not each.stock else 0.0)
        for each in transports
        if not each.encoded or size < GRPC_LIMIT
    )


@dataclass(frozen=True)
class Case:
    """A consumer and a size."""

    consumer: str
    size: int
    """Bytes of the tensor, or of each tensor of a chain."""

    def includes(self, transport: Transport) -> bool:
        """Whether `transport` can run this case, and its figure is useful."""
        if transport.encoded:
            return self.size < GRPC_LIMIT
        if transport is RAW:
            return self.consumer == SLICE  # the consumer that does not compute with the bytes
        return transport is not LOCAL or self.consumer in (REDUCE_MAX, PARALLEL, CHAIN)


class Graph(Protocol):
    """A session of the client with the graph of one case, which it opens and checks."""

    def __init__(self, tf: Any, transport: str, target: str, case: Case, number: int) -> None:
        """Open it at `target`, the consumer's server. Each graph of a run has another number."""

    def take(self, empty: bool, count: int) -> list[float]:
        """Run `count` steps, or empty ones, and return the seconds of each."""

    def close(self) -> None:
        """Free its memory."""


SMALL_CASES = {PARALLEL: Case(PARALLEL, PARALLEL_BYTES), CHAIN: Case(CHAIN, CHAIN_BYTES)}
"""The cases of many small tensors, which have one size each."""


@dataclass(frozen=True)
class TensorPlan:
    """A whole run."""

    transports: tuple[Transport, ...]
    cases: tuple[Case, ...]
    rounds: int
    """Highest number of rounds. Each transport has one turn in each round."""
    case_seconds: float
    """About how long a case may take. `FEWEST_ROUNDS` rounds are run in any case."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""
    graphs: Mapping[str, type[Graph]] = field(default_factory=dict)
    """The graph of a consumer, where it is none of `graph.OpenCase`."""


FEWEST_ROUNDS = 5
TURN_SECONDS = 0.04
"""Time of the steps with a tensor. In a short turn other load affects both kinds alike."""
MOST_STEPS = 20
FEWEST_STEPS = 2
_START_SECONDS = 20.0
_SECONDS_OF_TURN = 0.12
"""Time of a turn of small steps, with its empty steps and the readings."""
_STEPS_OF_LARGE_TURN = 4
_SECONDS_PER_BYTE = 1.4e-9
"""Time of a large step of all transports together, on two processors."""


def expected_seconds(plan: TensorPlan) -> float:
    """Estimate the time of a run on two processors."""
    turns = plan.rounds * len(plan.transports) * _SECONDS_OF_TURN
    fewest = FEWEST_ROUNDS * _STEPS_OF_LARGE_TURN * _SECONDS_PER_BYTE
    return _START_SECONDS + sum(
        max(min(turns, plan.case_seconds), fewest * case.size) for case in plan.cases
    )


@dataclass(frozen=True)
class Block(Turn):
    """One transport's turn in one round: its steps with the tensor, and those without."""

    empty: list[float] = field(default_factory=list)
    """Seconds of each step without a tensor."""
