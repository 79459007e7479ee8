"""The plan of a ``bench p2p`` run: operations, sizes, repetitions and targets."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite.errors import InvalidArgument
from farwrite.units import format_size
from farwrite_bench._native import (
    MAX_LANES,
    MAX_ONE_WAY_SAMPLES,
    ONE_WAY_BYTES,
    slots,
)
from farwrite_bench.sizes import GIB, KIB, MIB

OPS = ("write", "read", "notify", "alias")
FABRIC_OPS = {"shm": OPS, "tcp": ("write", "read", "notify")}
"""The operations of each fabric; an alias needs a fabric that maps the peer's memory."""
DEFAULT_SIZES = (8, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB)
QUICK_SIZES = (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)
POOL_BYTES = GIB
QUICK_POOL_BYTES = 64 * MIB
ROUNDS, QUICK_ROUNDS = 5, 2
POLLED_TARGETS = {4 * KIB: 1.3, 64 * KIB: 1.15, 128 * KIB: 1.15, 256 * KIB: 1.15}
"""By size of a write: how many times the limit's time it may take, if receivers poll."""
STREAMING_BYTES = 16 * KIB
"""From this size on the limit uses the best copy kernel; below, it is memcpy."""

MEMORY_RATE = 3e9
"""Bytes per second of one pass, for the expected time alone."""
START_SECONDS = 6.0
"""Of both processes of one operation, with the filling of their pools, for a pool of 1 GiB."""

MEMORY_PER_POOL = 2.5
"""Memory of a run, in pools: Farwrite's, the raw loop's, and half a pool that both share."""


@dataclass(frozen=True)
class Plan:
    """A request whose values are checked. Sizes are in bytes, each once."""

    fabric: str
    ops: tuple[str, ...]
    sizes: tuple[int, ...]
    wait: str
    """"poll" or "block"."""
    lanes: int
    window: int
    pool_bytes: int
    rounds: int
    quick: bool

    def __post_init__(self) -> None:
        if self.fabric not in FABRIC_OPS:
            raise InvalidArgument(
                f"bench p2p: fabric '{self.fabric}' cannot be measured between two processes;"
                f" use --fabric {' or '.join(FABRIC_OPS)}"
            )
        for op in self.ops:
            if op not in FABRIC_OPS[self.fabric]:
                raise InvalidArgument(
                    f"bench p2p: no operation '{op}' over {self.fabric};"
                    f" use {', '.join(FABRIC_OPS[self.fabric])}"
                )
        if not 1 <= self.lanes <= MAX_LANES:
            raise InvalidArgument(f"bench p2p: {self.lanes} lanes; use --lanes 1 to {MAX_LANES}")
        if not 1 <= self.window <= 1024:
            raise InvalidArgument(f"bench p2p: window {self.window}; use --window 1 to 1024")
        if self.pool_bytes < 4 * MIB or self.pool_bytes % MIB != 0:
            raise InvalidArgument(
                f"bench p2p: a pool of {self.pool_bytes} bytes; use at least 4M, in whole MiB"
            )
        for size in self.sizes:
            if size < 8 or size % 8 != 0:
                raise InvalidArgument(
                    f"bench p2p: a size of {size} bytes; use a multiple of 8, because payloads"
                    " are checked in 64-bit words"
                )
            if size > self.pool_bytes // 2:
                raise InvalidArgument(
                    f"bench p2p: a size of {format_size(size)} exceeds half of the pool of"
                    f" {format_size(self.pool_bytes)}; use smaller --sizes or a --pool of"
                    f" {format_size(2 * size)}"
                )


@dataclass(frozen=True)
class Case:
    """One row of the result: an operation at one size. The pool limits lanes and window."""

    op: str
    size: int
    """Bytes of one transfer; 0 for a notification without bytes."""
    lanes: int
    window: int
    slots: int
    block: bool
    quick: bool
    fabric: str = "shm"

    @property
    def phase_size(self) -> int:
        """The size for the C++ loops, whose slots have at least 8 bytes."""
        return max(self.size, 8)

    @property
    def large(self) -> bool:
        """Whether the target is a bandwidth and not a latency."""
        return self.size >= ONE_WAY_BYTES

    @property
    def best_kernel_limit(self) -> bool:
        """Whether the limit depends on the copy kernel."""
        return (
            self.fabric == "shm" and self.op in ("write", "read") and self.size >= STREAMING_BYTES
        )

    def latency_transfers(self) -> int:
        """Return how many transfers to make one at a time."""
        if self.large:
            wanted = (32 if self.quick else 256) * MIB // self.size
            return min(max(wanted, 4), 100, MAX_ONE_WAY_SAMPLES)
        if self.block:
            return 50 if self.quick else 500
        if self.quick:
            return 200
        return min(4000, max(400, 64 * MIB // self.phase_size))

    def bandwidth_transfers(self) -> int:
        """Return how many transfers to make through the window: a multiple of the lanes."""
        pool = (32 if self.quick else 1024) * MIB
        most = 500 if self.quick else 3000 if self.block else 20000
        count = max(min(pool // self.phase_size, most), 6, 2 * self.window * self.lanes)
        return -(-count // self.lanes) * self.lanes

    def verify_transfers(self) -> int:
        """Return how many stamped transfers to make; at most one per slot for a read."""
        count = max(
            min((16 if self.quick else 512) * MIB // self.phase_size, 2000),
            4,
            2 * self.window * self.lanes,
        )
        count = -(-count // self.lanes) * self.lanes
        return min(count, self.slots) if self.op == "read" else count

    def target(self) -> tuple[str, float] | None:
        """Return the target of `ratio` as (">=" or "<=", figure), or None without a target."""
        if self.fabric == "tcp":
            if self.op == "write" and self.large:
                return (">=", 0.8)
            return ("<=", 1.5) if self.op == "write" and self.size == 8 else None
        if self.op == "write" and self.large:
            return (">=", 0.9 if self.block or self.size < 16 * MIB else 0.95)
        if self.op == "notify" or (self.op == "write" and self.size == 8):
            return ("<=", 1.3 if self.block else 2.0)
        if self.op == "write" and not self.block and self.size in POLLED_TARGETS:
            return ("<=", POLLED_TARGETS[self.size])
        return None


def cases(plan: Plan, op: str) -> list[Case]:
    """Make the cases of one operation. A notification has no bytes and therefore one case."""
    made = []
    for size in (0,) if op == "notify" else plan.sizes:
        lanes = min(plan.lanes, plan.pool_bytes // 2 // max(size, 64))
        places = slots(max(size, 8), lanes, plan.pool_bytes)
        window = min(plan.window, places // lanes)
        block = plan.wait == "block"
        made.append(Case(op, size, lanes, window, places, block, plan.quick, plan.fabric))
    return made


def expected_seconds(plan: Plan) -> float:
    """Estimate the time of a run on two processors."""
    total = 0.0
    for op in plan.ops:
        total += START_SECONDS * (plan.pool_bytes / POOL_BYTES) + 1.0
        for case in cases(plan, op):
            # Two latency loops, and four passes of the bandwidth, of which two are read.
            moved = case.latency_transfers() * 2 + case.bandwidth_transfers() * 6
            total += (plan.rounds + 1) * (moved * case.size / MEMORY_RATE + 0.1)
            total += case.verify_transfers() * case.size / MEMORY_RATE
            if case.best_kernel_limit:
                total += 4 * case.bandwidth_transfers() * case.size / MEMORY_RATE
            if case.block:
                wakes = case.latency_transfers() * 2 + case.bandwidth_transfers() * 4
                total += (plan.rounds + 1) * wakes * 20e-6
    return total
