"""The sizes, the ways and the turns of ``bench feed``, and the messages to a client."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.transport import FARWRITE, GRPC, STOCK_PROTOCOL
from farwrite_bench.plan import KIB, MIB

WAYS = {each.key: each for each in (GRPC, FARWRITE)}
"""The transport of the server. The client runs no server."""
FEED, FETCH = "feed", "fetch"
OPERATIONS = (FEED, FETCH)
ELEMENT = 4
"""Bytes of a float32."""
SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
QUICK_SIZES = (4 * KIB, MIB)
TARGETS = (STOCK_PROTOCOL, FARWRITE.protocol)
DEFAULT_TARGET = FARWRITE.protocol
"""The scheme of the target that a session of Farwrite's row has by default."""

MEMORY_PER_SIZE = 26.0
"""Memory of both ways together, in tensors: values in the client, and gRPC's messages on either
side."""
TURN_SECONDS = 0.25
"""About how long a turn of either operation takes, if it has more than the fewest steps."""
FEWEST_ROUNDS = 5
FEWEST_STEPS, MOST_STEPS = 2, 100
"""Limits of the steps of a turn."""
_START_SECONDS = 12.0
_SECONDS_PER_BYTE = 4e-9
"""Time of a feed or a fetch over gRPC, on two processors."""


@dataclass(frozen=True)
class FeedPlan:
    """A whole run."""

    sizes: tuple[int, ...]
    """Bytes of the tensor."""
    ways: tuple[str, ...]
    rounds: int
    """Highest number of rounds. In each round each way has a turn of feeds and one of fetches."""
    size_seconds: float = 60.0
    """About how long a size may take. `FEWEST_ROUNDS` are run in any case."""
    target: str = DEFAULT_TARGET
    """The scheme of the session's target in Farwrite's row."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""

    def scheme(self, way: str) -> str:
        """Return the scheme of the session's target."""
        return STOCK_PROTOCOL if WAYS[way].stock else self.target


def expected_seconds(plan: FeedPlan) -> float:
    """Estimate the time of a run on two processors."""
    expected = _START_SECONDS
    for size in plan.sizes:
        turn = max(TURN_SECONDS, FEWEST_STEPS * size * _SECONDS_PER_BYTE)
        a_round = turn * len(plan.ways) * len(OPERATIONS)
        fewest = min(plan.rounds, FEWEST_ROUNDS) * a_round
        expected += a_round + max(min(plan.rounds * a_round, plan.size_seconds), fewest)
    return expected


@dataclass(frozen=True)
class Begin:
    """The first message to a client: the scheme and the address of its sessions' server."""

    scheme: str
    address: str


@dataclass(frozen=True)
class Open:
    """A request to a client: open a session with a variable of `size` bytes."""

    size: int


@dataclass(frozen=True)
class Close:
    """A request to a client: free the variable, and end the session."""
