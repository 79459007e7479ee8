"""The loops that both sides run, and what the command and a side say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from farwrite_bench._native import ONE_WAY_BYTES, slots

ECHO = "echo"
"""One at a time, and the same bytes come back: half of the round trip is the latency."""
ONE_WAY = "one-way"
"""One at a time; both sides read one clock, from before the send until the bytes are read."""
STREAM = "stream"
"""Several under way, until the receiver has read and acknowledged the last one."""

ECHO_PLACES = 2


@dataclass(frozen=True)
class Loop:
    """One loop. Sizes are in bytes; the transfers take the places of a pool in rotation."""

    kind: str
    size: int
    transfers: int
    window: int
    seed: int
    """Of 32 bits; tells the payloads of two loops apart."""
    pool_bytes: int

    @property
    def stride(self) -> int:
        """The bytes from one place to the next."""
        return (self.size + 63) // 64 * 64

    @property
    def places(self) -> int:
        """How many places the transfers use. Echoes stay in two, which are warm.

        An echo may be under way while the next one is written, so one place is not enough.
        """
        return ECHO_PLACES if self.kind == ECHO else places(self.size, self.pool_bytes)


def places(size: int, pool_bytes: int) -> int:
    """Return how many places of `size` bytes a pool has, as in ``bench p2p``."""
    return slots(size, 1, pool_bytes)


def latency_kind(size: int) -> str:
    """Return how the latency of a size is measured; a small one is too short for two clocks."""
    return ECHO if size < ONE_WAY_BYTES else ONE_WAY


@dataclass(frozen=True)
class Opened:
    """A side's first answer: where the other side reaches it, and which settings it has."""

    address: object
    settings: str


@dataclass(frozen=True)
class Connect:
    """An order: connect to the other side, which has this address."""

    address: object


@dataclass(frozen=True)
class Ready:
    """The answer to `Connect`, and the receiver's to a `Loop` before its first transfer."""


@dataclass(frozen=True)
class Ran:
    """A side's figures of a loop."""

    seconds: float
    cpu_seconds: float
    """User and system time of all its threads, and of the library's other processes."""
    bad: int
    """Transfers with wrong bytes, and those that came twice."""
    copies: float | None = None
    """Passes over the payloads by this side, where the library counts them."""
    samples_us: list[float] = field(default_factory=list)
    """Of an echo, at the sender."""
    moments: list[int] = field(default_factory=list)
    """Of one-way transfers, in nanoseconds of CLOCK_MONOTONIC: when each began, or was read."""
