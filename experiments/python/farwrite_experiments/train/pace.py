"""How many steps a run takes, and which of them count."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_STEPS = 4
"""Steps that are not measured: two tasks meet, sites are traced, and memory is touched first."""
MOST = 20
"""The most rounds."""
LEAST_ALONE, MOST_ALONE, SECONDS_ALONE = 5, 200, 1.0
"""The steps of an asynchronous turn: as many as take a second, within limits."""


@dataclass(frozen=True)
class Pace:
    """How long the turns are, how many, and the batches."""

    rounds: int
    """The fewest rounds."""
    steps: int
    """Steps of a turn."""
    batches: tuple[int, ...]
    case_seconds: float = 0.0
    """About how long the rounds of a group may take; short steps get more rounds, up to `MOST`."""

    def steps_of(self, step: float, *, sync: bool) -> int:
        """Return the steps of a turn, of which one takes `step` seconds.

        Workers that do not wait for each other begin a turn together, so they get long ones.
        """
        if sync:
            return self.steps
        return max(self.steps, LEAST_ALONE, min(MOST_ALONE, int(SECONDS_ALONE / max(step, 1e-6))))

    def rounds_of(self, steps: int, step: float) -> int:
        """Return how many rounds of `steps` a group takes, with `step` seconds of all ways."""
        affordable = int(self.case_seconds / (steps * max(step, 1e-6)))
        return max(self.rounds, min(affordable, MOST))


SHORT = Pace(9, 1, (8,), case_seconds=38.0)
"""Of nine rounds, one may be an outlier at each end without moving the interval."""
QUICK = Pace(2, 1, (8,))
FULL = Pace(5, 100, (1, 2, 4, 8, 16, 32, 64, 128))
"""The paper's method: the mean of 5 runs of 100 mini-batches."""
