"""The payloads: lists of buffers of three categories, by the schemes of TF-gRPC-Bench."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from farwrite.errors import InvalidArgument

SMALL, MEDIUM, LARGE = "small", "medium", "large"
CATEGORIES = {SMALL: 10, MEDIUM: 10_000, LARGE: 1_000_000}
"""The bytes of a buffer of each category, unless an option says otherwise."""
RANGES = {SMALL: (1, 1_000), MEDIUM: (1_000, 1_000_000), LARGE: (1_000_000, 10_000_001)}
"""The least bytes of each category, and the first that are too many."""
BUFFERS = 10
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


def check_categories(sizes: Mapping[str, int]) -> None:
    """Check the bytes of a buffer of each category.

    Raises
    ------
    InvalidArgument
        If a size is that of another category.
    """
    for category, (least, end) in RANGES.items():
        if not least <= sizes[category] < end:
            raise InvalidArgument(
                f"bench grpc: a {category} buffer of {sizes[category]} bytes is outside its"
                f" category; use {least} to {end - 1} bytes"
            )


def uniform(count: int) -> list[str]:
    """Take the categories in turn: small, medium, large, small ..."""
    return [tuple(CATEGORIES)[at % len(CATEGORIES)] for at in range(count)]


def skewed(count: int, bias: str) -> list[str]:
    """Take 60 % of the buffers from the category `bias`, the rest by `SHARES`."""
    shares = SHARES[bias]
    counts = {category: count * share // 100 for category, share in shares.items()}
    # What rounding leaves goes to the largest remainders.
    by_remainder = sorted(shares, key=lambda category: -(count * shares[category] % 100))
    for category in by_remainder[: count - sum(counts.values())]:
        counts[category] += 1
    return [category for category in shares for _ in range(counts[category])]


def drawn(count: int, categories: Sequence[str], seed: int) -> list[str]:
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
    if count < 2:
        raise InvalidArgument(
            "bench grpc: the scheme random needs at least two buffers; use --iovec-count 2 or more"
        )
    choice = random.Random(seed)
    order = choice.sample(distinct, 2)  # whatever the others are, two categories occur
    order += choice.choices(distinct, k=count - 2)
    choice.shuffle(order)
    return order
