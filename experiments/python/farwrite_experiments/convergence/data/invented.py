"""Invented words, and choices that are the same on every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Makes the same choices in every run, because only `random.Random.random` is used.

    Python keeps its numbers for a seed from version to version.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def happens(self, share: float) -> bool:
        """Return true in this share of the calls."""
        return self._random.random() < share

    def one(self, items: Sequence[Item]) -> Item:
        """Choose one of the items, each equally often."""
        return items[int(self._random.random() * len(items))]

    def frequent(self, items: Sequence[Item]) -> Item:
        """Choose one of the items, the first ones most often, as words of a language occur."""
        return items[int(self._random.random() ** 2 * len(items))]


def invented(count: int, consonants: str, vowels: str) -> list[str]:
    """Return `count` words of two syllables, in a fixed order that mixes them."""
    syllables = [first + second for first in consonants for second in vowels]
    total = len(syllables) ** 2
    if count > total:
        raise ValueError(f"{count} words of {total}")
    stride = next(step for step in range(total // 3, total) if _shares_no_factor(step, total))
    places = [number * stride % total for number in range(count)]
    return [
        syllables[place // len(syllables)] + syllables[place % len(syllables)] for place in places
    ]


def _shares_no_factor(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1
