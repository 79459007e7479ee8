"""The plan of a ``bench peers`` run: sizes, rounds, and how many transfers a turn makes."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite.errors import InvalidArgument
from farwrite.units import format_size
from farwrite_bench._native import MAX_ONE_WAY_SAMPLES, ONE_WAY_BYTES
from farwrite_bench.peers.peer import BANDWIDTH, LATENCY, Peer
from farwrite_bench.sizes import KIB, MIB

DEFAULT_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
QUICK_SIZES = (8, 64 * KIB, MIB, 16 * MIB)
ROUNDS, QUICK_ROUNDS = 5, 2
WINDOW = 4
TURN_SECONDS, QUICK_TURN_SECONDS = 0.25, 0.05
"""How long one of the two loops of a turn may take. A slow peer makes fewer transfers."""
MOST_STREAMED = 20000
START_SECONDS = 4.0
"""About how long a peer takes to start."""


@dataclass(frozen=True)
class Plan:
    """A request whose values are checked. Sizes are in bytes, each once."""

    peers: tuple[Peer, ...]
    sizes: tuple[int, ...]
    rounds: int
    pool_bytes: int
    quick: bool

    def __post_init__(self) -> None:
        for size in self.sizes:
            if size < 8 or size % 8 != 0:
                raise InvalidArgument(
                    f"bench peers: a size of {size} bytes; use a multiple of 8, because payloads"
                    " are checked in 64-bit words"
                )
            if size > self.pool_bytes // 2:
                raise InvalidArgument(
                    f"bench peers: a size of {format_size(size)} exceeds half of the pool of"
                    f" {format_size(self.pool_bytes)}; use smaller --sizes"
                )

    @property
    def turn_seconds(self) -> float:
        """How long one loop of a turn may take."""
        return QUICK_TURN_SECONDS if self.quick else TURN_SECONDS

    def first_counts(self, size: int) -> dict[str, int]:
        """Return the transfers of the first turn at a size, by loop."""
        if size >= 16 * MIB:
            return {LATENCY: 1, BANDWIDTH: 2}
        large = size >= ONE_WAY_BYTES
        return {LATENCY: 4 if large else 50, BANDWIDTH: 2 * WINDOW if large else 100}

    def counts(self, size: int, seconds: dict[str, float]) -> dict[str, int]:
        """Return the transfers of a turn, by loop, of a peer whose transfers take so long."""
        least, most = (2, 100) if size >= ONE_WAY_BYTES else (20, MAX_ONE_WAY_SAMPLES)
        pool = max((32 * MIB if self.quick else self.pool_bytes) // size, 6)
        limits = {LATENCY: (least, most), BANDWIDTH: (WINDOW, min(pool, MOST_STREAMED))}
        return {
            kind: max(min(int(self.turn_seconds / seconds[kind]), most), least)
            for kind, (least, most) in limits.items()
        }


def expected_seconds(plan: Plan, present: int) -> float:
    """Estimate the time of a run on two processors, with so many peers installed."""
    total = START_SECONDS * present + 2.0
    for size in plan.sizes:
        # A turn that begins from cold, at about half a GB/s for the slowest; and then the rounds.
        least = 2 * plan.turn_seconds + 6 * size / 2e9
        total += present * ((plan.rounds + 1) * least + 0.05)
    return total
