"""How many steps a run takes, and which of them count."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_STEPS = 4
"""Steps that are not measured: two tasks meet, sites are traced, and memory is touched first."""
WARM_UP_STEPS = 1
"""Steps before each turn, which are not measured."""


@dataclass(frozen=True)
class Pace:
    """How long the turns are, how many, and the batches."""

    rounds: int
    steps: int
    """Steps of a turn."""
    batches: tuple[int, ...]


SHORT = Pace(6, 1, (8,))
QUICK = Pace(2, 1, (8,))
FULL = Pace(5, 100, (1, 2, 4, 8, 16, 32, 64, 128))
"""The paper's method: the mean of 5 runs of 100 mini-batches."""
