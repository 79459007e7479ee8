"""Predicts the step of a job, and what limits it."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_experiments.capacity.costs import Costs, TransportCosts
from farwrite_experiments.capacity.flow import Flow, Work
from farwrite_experiments.capacity.job import Job, Site
from farwrite_experiments.capacity.step import Builder, Worker

COMPUTATION, CONTROL = "computation", "control"
MOST_ALONE = 64
"""The most workers that are simulated one by one, where each steps by itself."""
STEPS_ALONE = 6
"""Their simulated steps; the first half is not counted, until they have drifted apart."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of a job."""

    step_s: float
    """Seconds of a step; of workers that step by themselves, the mean of a worker's steps."""
    local_s: float
    """Seconds of the same step where nothing moves between tasks."""
    bottleneck: str
    """What is used for the largest share of the step."""
    shares: dict[str, float]
    """That share, from 0 to 1, of everything that is used: a link and its direction, the processors
    of a task's machine, a connection, the computation, and the control calls."""

    @property
    def exposed_s(self) -> float:
        """Seconds of communication that nothing hides."""
        return max(self.step_s - self.local_s, 0.0)


def predict(job: Job, site: Site, costs: Costs, transport: TransportCosts) -> Prediction:
    """Predict a job over a transport.

    Workers that step by themselves are simulated one by one, up to `MOST_ALONE`; more of them take
    as long as their number and the capacity of what is scarce say.
    """
    local = _together(job, site, costs, None)[0]
    if job.sync:
        step, shares = _together(job, site, costs, transport)
    else:
        step, shares = _alone(job, site, costs, transport)
    shares[COMPUTATION] = (
        min(job.straggler * job.compute_s / step, 1.0) if job.sync else (job.compute_s / step)
    )
    shares[CONTROL] = transport.step_s / step
    return Prediction(step, local, max(shares, key=shares.__getitem__), shares)


def _together(
    job: Job, site: Site, costs: Costs, transport: TransportCosts | None
) -> tuple[float, dict[str, float]]:
    """Simulate one step of all workers."""
    workers = [Worker(0, job.workers)]
    if job.straggler != 1.0:
        workers = [Worker(0, 1, job.straggler)]
        if job.workers > 1:
            workers.append(Worker(1, job.workers - 1))
    builder = Builder(job, site, costs, transport)
    begin = builder.control()
    builder.step(workers, begin)
    flow = Flow(builder.capacities)
    step = flow.run([begin])
    return step, _shares(flow, builder.capacities, step)


def _alone(
    job: Job, site: Site, costs: Costs, transport: TransportCosts
) -> tuple[float, dict[str, float]]:
    """Simulate workers that do not wait for each other, several steps of each."""
    simulated = min(job.workers, MOST_ALONE)
    builder = Builder(job, site, costs, transport)
    starts: list[Work] = []
    ends: list[list[Work]] = []
    for number in range(simulated):
        slower = job.straggler if number == 0 else 1.0
        worker = Worker(number, 1, slower)
        # They begin one after the other, so that they do not move in step.
        begin = builder.control()
        begin.delay = number * job.compute_s / simulated
        starts.append(begin)
        of_worker = []
        for _ in range(STEPS_ALONE):
            end = builder.step([worker], begin)
            of_worker.append(end)
            begin = builder.control().after(end)
        ends.append(of_worker)
    flow = Flow(builder.capacities)
    flow.run(starts)
    half = STEPS_ALONE // 2
    last = [_ended(of_worker[-1]) for of_worker in ends]
    middle = [_ended(of_worker[half - 1]) for of_worker in ends]
    lasted = [(end - start) / (STEPS_ALONE - half) for end, start in zip(last, middle, strict=True)]
    step = sum(lasted) / len(lasted)
    shares = _shares(flow, builder.capacities, flow.now)
    busiest = max(shares.values(), default=0.0)
    # What all workers share is used by each of them; beyond its capacity the steps get longer.
    wanted = busiest * job.workers / simulated
    return step * max(wanted, 1.0), shares


def _ended(work: Work) -> float:
    assert work.ended is not None, "a step that never ended"
    return work.ended


def _shares(flow: Flow, capacities: dict[str, float], seconds: float) -> dict[str, float]:
    if seconds == 0:
        return {}
    return {name: flow.used[name] / (capacity * seconds) for name, capacity in capacities.items()}
