"""The messages between the command and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.transport import Transport


@dataclass(frozen=True)
class Join:
    """The first message to a worker: its place, and how many float32 elements it reduces."""

    addresses: tuple[str, ...]
    index: int
    transport: Transport
    elements: int


@dataclass(frozen=True)
class Reduce:
    """A request for `warm_up` unmeasured reductions and `steps` measured ones."""

    steps: int
    warm_up: int


@dataclass(frozen=True)
class Reduced:
    """The seconds of each measured reduction, and the readings before and after them."""

    seconds: list[float]
    before: Readings
    after: Readings
