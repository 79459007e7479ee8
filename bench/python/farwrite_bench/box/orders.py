"""The messages from the command to the processes that it measures, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Open:
    """Take the memory of a turn and connect to the others. The answer is `Ready`.

    A process can have several turns open, of different ways, and runs one at a time.
    """

    way: str
    """What the process does in this turn, and over what: a key of its table of turns."""
    bytes: int
    """Of the memory that the turn moves."""
    place: str = ""
    """Where the other side is: an endpoint, a path or a name, as the way needs it."""
    number: int = 0
    """Of this process, from 0 on."""


@dataclass(frozen=True)
class Ready:
    """A process has done what it was ordered to do."""


@dataclass(frozen=True)
class Start:
    """Run `steps` steps of the turn `way` from `moment` on. The answer is `Ran`."""

    way: str
    moment: float
    """Of `time.perf_counter`, which all processes of a machine share."""
    steps: int
    compute: float = 0.0
    """Seconds of computation in each step."""


@dataclass(frozen=True)
class Ran:
    """What one process measured in its steps."""

    began: float
    """When it began, as `Start.moment`."""
    ended: float
    seconds: list[float] = field(default_factory=list)
    """One figure for each step; which one depends on the way."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counters of the box's client, since it connected."""


@dataclass(frozen=True)
class Check:
    """Look through the memory that the turn `way` changed. The answer is `Checked`."""

    way: str


@dataclass(frozen=True)
class Checked:
    """The lowest and the highest element."""

    low: float
    high: float


@dataclass(frozen=True)
class Close:
    """Give the memory of the turn `way` back. The answer is `Ready`."""

    way: str
