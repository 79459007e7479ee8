"""The payloads: lists of buffers of three categories, by the schemes of TF-gRPC-Bench."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from farwrite.errors import InvalidArgument

SMALL, MEDIUM, LARGE = "small", "medium", "large"
CATEGORIES = (SMALL, MEDIUM, LARGE)
UNIFORM, RANDOM, SKEW, PLAIN = "uniform", "random", "skew", "plain"
SCHEMES = (UNIFORM, RANDOM, SKEW)
"""PLAIN is not one of them: it is a single buffer of a given size."""
SHARES = {
    LARGE: {LARGE: 60, MEDIUM: 30, SMALL: 10},
    MEDIUM: {MEDIUM: 60, LARGE: 30, SMALL: 10},
    SMALL: {SMALL: 60, MEDIUM: 30, LARGE: 10},
}
"""Percent of the buffers of each category in the scheme skew, by its bias."""
SEED = 3
"""Of the scheme random; with the default sizes its payload is smaller than the other schemes'."""
RANGES = {SMALL: (1, 1_000), MEDIUM: (1_000, 1_000_000), LARGE: (1_000_000, 10_000_001)}
"""The bytes of a buffer of each category: the least, and the first that is too many."""


@dataclass(frozen=True)
class Scale:
    """How many buffers a payload has, and how large they are."""

    iovec_count: int = 10
    small: int = 10
    medium: int = 10_000
    large: int = 1_000_000

    def __post_init__(self) -> None:
        for category, (least, end) in RANGES.items():
            size = self.bytes_of(category)
            if not least <= size < end:
                raise InvalidArgument(
                    f"bench grpc: a {category} buffer of {size} bytes is outside its category;"
                    f" use {least} to {end - 1} bytes"
                )

    def bytes_of(self, category: str) -> int:
        """Return the bytes of a buffer of `category`."""
        return {SMALL: self.small, MEDIUM: self.medium, LARGE: self.large}[category]


@dataclass(frozen=True)
class Payload:
    """The buffers of every request of a case."""

    scheme: str
    buffers: tuple[int, ...]
    """Bytes of each."""

    @property
    def bytes(self) -> int:
        """The bytes of all buffers."""
        return sum(self.buffers)


def uniform(scale: Scale) -> Payload:
    """Take the categories in turn: small, medium, large, small ..."""
    order = [CATEGORIES[at % len(CATEGORIES)] for at in range(scale.iovec_count)]
    return Payload(UNIFORM, _sizes(scale, order))


def skewed(scale: Scale, bias: str) -> Payload:
    """Take 60 % of the buffers from the category `bias`, the rest by `SHARES`."""
    counts = _counts(scale.iovec_count, SHARES[bias])
    order = [category for category in SHARES[bias] for _ in range(counts[category])]
    return Payload(SKEW, _sizes(scale, order))


def random_payload(scale: Scale, categories: Sequence[str], seed: int) -> Payload:
    """Choose the category of each buffer at random, at least two of `categories`.

    Raises
    ------
    InvalidArgument
        If there are fewer than two categories or buffers.
    """
    distinct = list(dict.fromkeys(categories))
    if len(distinct) < 2:
        raise InvalidArgument(
            "bench grpc: the scheme random needs at least two categories; give --category twice"
        )
    if scale.iovec_count < 2:
        raise InvalidArgument(
            "bench grpc: the scheme random needs at least two buffers; use --iovec-count 2 or more"
        )
    choice = random.Random(seed)
    order = choice.sample(distinct, 2)  # whatever the others are, two categories occur
    order += choice.choices(distinct, k=scale.iovec_count - 2)
    choice.shuffle(order)
    return Payload(RANDOM, _sizes(scale, order))


def plain(size: int) -> Payload:
    """Make one buffer of `size` bytes."""
    return Payload(PLAIN, (size,))


def _sizes(scale: Scale, order: Sequence[str]) -> tuple[int, ...]:
    return tuple(scale.bytes_of(category) for category in order)


def _counts(total: int, shares: dict[str, int]) -> dict[str, int]:
    """Divide `total` by percentages; what rounding leaves goes to the largest remainders."""
    counts = {category: total * share // 100 for category, share in shares.items()}
    by_remainder = sorted(shares, key=lambda category: -(total * shares[category] % 100))
    for category in by_remainder[: total - sum(counts.values())]:
        counts[category] += 1
    return counts
