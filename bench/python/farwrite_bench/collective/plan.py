"""What the command and its workers tell each other."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.transport import Transport


@dataclass(frozen=True)
class Join:
    """The first message: the worker's place, and how many float32 it reduces."""

    addresses: tuple[str, ...]
    index: int
    transport: Transport
    elements: int


@dataclass(frozen=True)
class Reduce:
    """Asks for so many reductions, of which the first ones do not count."""

    steps: int
    warm_up: int


@dataclass(frozen=True)
class Reduced:
    """What each of them took, and how the process looked before and after."""

    seconds: list[float]
    before: Readings
    after: Readings
