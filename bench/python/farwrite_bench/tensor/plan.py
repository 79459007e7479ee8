"""The cases and transports of a run, and what a turn measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from farwrite_bench.benchmarks import suites
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED, STOCK_PROTOCOL, Transport
from farwrite_bench.sizes import GIB, KIB

LOCAL = Transport("local", "one process", STOCK_PROTOCOL)
"""Producer and consumer in one server: the time of the computation alone."""
RAW = Transport("raw", "raw socket", STOCK_PROTOCOL)
"""The same bytes through one tuned socket without TensorFlow: the limit between hosts."""
_ADDED = [each for suite in suites() for each in suite.transports()]
TRANSPORTS = {each.key: each for each in (GRPC, *_ADDED, STAGED, FARWRITE, LOCAL, RAW)}
"""The transports by key, with those that other distributions add."""
SLICE = "slice"
REDUCE_MAX = "reduce_max"
CHAIN = "chain"
PARALLEL = "parallel"
CONSUMERS = (SLICE, REDUCE_MAX)
"""The consumers that are measured at every size."""

GRPC_LIMIT = 2**31
"""TensorFlow's gRPC cannot send a tensor of this many bytes. TensorFlow 2.21 reports no error: the
step never ends, not even at its deadline."""
CHAIN_HOPS = 20
CHAIN_BYTES = 256
PARALLEL_TENSORS = 20
PARALLEL_BYTES = 4 * KIB
SPARE_BYTES = 4 * GIB
"""Memory for the interpreters, each of which loads TensorFlow."""


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
        """Open it at `target`, the consumer's server. Each case of a run has another number."""

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
    """About how long a case may take. `run.FEWEST_ROUNDS` rounds are run in any case."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""
    graphs: Mapping[str, type[Graph]] = field(default_factory=dict)
    """The graph of a consumer, where it is none of `graph.OpenCase`."""


@dataclass(frozen=True)
class Block(Turn):
    """One transport's turn in one round: its steps with the tensor, and those without."""

    empty: list[float] = field(default_factory=list)
    """Seconds of each step without a tensor."""
