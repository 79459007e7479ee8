"""What one run of ``bench scaling`` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED
from farwrite_experiments.capacity.costs import Costs
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.networks.network import INCEPTION_V3, LSTM, VGG16
from farwrite_experiments.train.pace import FIRST_STEPS, Pace
from farwrite_experiments.train.plan import EMULATED, Case, Way

MODELS = (VGG16.key, LSTM.key, INCEPTION_V3.key)
"""The networks of the paper's experiment."""
BATCH = 32
"""The paper's batch of a worker."""
MACHINES = (1, 2, 4)
LINKS = (Link(10e9),)
TRANSPORTS = {each.key: each for each in (GRPC, STAGED, FARWRITE)}
FABRIC = "tcp"
"""What Farwrite uses: no other fabric goes over a link of this machine."""
SHORT = Pace(5, 1, (BATCH,))
QUICK = Pace(2, 1, (BATCH,))
QUICK_MODELS, QUICK_MACHINES = (LSTM.key,), (1, 2)
CALIBRATION_SECONDS = 45.0
START_SECONDS = 3.0
"""Of a machine, for each transport."""
NS_PER_BYTE = 1.5
"""Of a step, for each byte of the variables and each machine."""


@dataclass(frozen=True)
class Point:
    """A number of machines, each with a server and a worker, around a link."""

    model: str
    batch: int
    machines: int
    link: Link | None
    """None: nothing is shaped, and all machines use this one's loopback."""

    @property
    def case(self) -> Case:
        """What all transports run."""
        return Case(self.model, EMULATED, self.batch, self.machines, self.machines)

    @property
    def alone(self) -> Case:
        """The purely local run: one worker's steps in one process."""
        return Case(self.model, EMULATED, self.batch, 1, 1)

    @property
    def compute_s(self) -> float:
        """Seconds of a worker's computation in a step."""
        return (self.case.compute_ms or 0.0) / 1e3


@dataclass(frozen=True)
class ScalingPlan:
    """A whole run."""

    points: tuple[Point, ...]
    ways: tuple[Way, ...]
    pace: Pace
    costs: Costs | None = None
    """From which each step is predicted; None measures them first."""
    calibration_rounds: int = 0


def points(
    models: Sequence[str], batch: int, machines: Sequence[int], links: Sequence[Link | None]
) -> tuple[Point, ...]:
    """Return all points, those of one network together."""
    return tuple(
        Point(model, batch, count, link) for model in models for link in links for count in machines
    )


def ways(transports: Sequence[str]) -> tuple[Way, ...]:
    """Return how these transports run."""
    return tuple(
        Way(transport, None if transport.stock else FABRIC)
        for key, transport in TRANSPORTS.items()
        if key in transports
    )


def expected_seconds(plan: ScalingPlan) -> float:
    """Estimate the time of a run on two processors."""
    steps = plan.pace.rounds * plan.pace.steps + FIRST_STEPS
    alone = {point.model: point.compute_s for point in plan.points}
    seconds = CALIBRATION_SECONDS + steps * sum(alone.values())
    for point in plan.points:
        moving = NS_PER_BYTE * 1e-9 * point.case.network.bytes * point.machines
        of_way = START_SECONDS * point.machines + steps * (point.compute_s + moving)
        seconds += len(plan.ways) * of_way
    return seconds
