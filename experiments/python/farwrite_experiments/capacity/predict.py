"""Predicts the step of a job, and what limits it, by a simulation of the step's work.

A step pulls every variable from its server, computes the layers forward as their variables arrive,
then backward, pushes every gradient as soon as it is there, and applies it where the variable is.
Workers that do the same at the same time are one `Worker` with a count: their works are the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from farwrite_experiments.capacity.costs import Costs, TransportCosts
from farwrite_experiments.capacity.flow import Flow, Work
from farwrite_experiments.capacity.job import Job, Site, Stage

COMPUTATION, CONTROL = "computation", "control"
READ_PASSES, WRITE_PASSES = 1, 1
"""Of a layer: it reads its variables and writes its gradients."""
APPLY_PASSES = 3
"""Of an update: it reads variable and gradient, and writes the variable."""
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
    local = _together(job, site, costs, None).now
    if job.sync:
        flow = _together(job, site, costs, transport)
        step, shares = flow.now, flow.shares()
        shares[COMPUTATION] = min(job.straggler * job.compute_s / step, 1.0)
    else:
        step, shares = _alone(job, site, costs, transport)
        shares[COMPUTATION] = job.compute_s / step
    shares[CONTROL] = transport.step_s / step
    return Prediction(step, local, max(shares, key=shares.__getitem__), shares)


def _together(job: Job, site: Site, costs: Costs, transport: TransportCosts | None) -> Flow:
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
    flow.run([begin])
    return flow


def _alone(
    job: Job, site: Site, costs: Costs, transport: TransportCosts
) -> tuple[float, dict[str, float]]:
    """Simulate workers that do not wait for each other, several steps of each."""
    simulated = min(job.workers, MOST_ALONE)
    builder = Builder(job, site, costs, transport)
    starts: list[Work] = []
    ends: list[list[Work]] = []
    for number in range(simulated):
        worker = Worker(number, 1, job.straggler if number == 0 else 1.0)
        # They begin one after the other, so that they do not move in step.
        begin = builder.control()
        begin.delay = number * job.compute_s / simulated
        starts.append(begin)
        ends.append([])
        for _ in range(STEPS_ALONE):
            ends[-1].append(builder.step([worker], begin))
            begin = builder.control().after(ends[-1][-1])
    flow = Flow(builder.capacities)
    flow.run(starts)
    half = STEPS_ALONE // 2
    step = statistics.fmean(
        (of_worker[-1].ended - of_worker[half - 1].ended) / (STEPS_ALONE - half)
        for of_worker in ends
    )
    shares = flow.shares()
    # What all workers share is used by each of them; beyond its capacity the steps get longer.
    wanted = max(shares.values(), default=0.0) * job.workers / simulated
    return step * max(wanted, 1.0), shares


@dataclass(frozen=True)
class Worker:
    """Workers that do the same at the same time."""

    first: int
    """The number of the first one; the others follow."""
    count: int
    slower: float = 1.0
    """How many times longer than the job says their computation takes."""


class Builder:
    """Builds works, and names the resources that they need.

    Parameters
    ----------
    job, site, costs
        What is predicted.
    transport : TransportCosts, optional
        What moves tensors between tasks; None for one process, which moves none.
    """

    def __init__(
        self, job: Job, site: Site, costs: Costs, transport: TransportCosts | None
    ) -> None:
        self._job, self._site, self._costs, self._transport = job, site, costs, transport
        self.capacities: dict[str, float] = {}
        self._sizes = [size for stage in job.stages for size in stage.variables]

    def step(self, workers: Sequence[Worker], begin: Work) -> Work:
        """Build a step of `workers` together behind `begin`, and return the work that ends it."""
        pushed: list[list[Work]] = [[] for _ in self._sizes]
        for worker in workers:
            self._worker(worker, begin, pushed)
        gradients = sum(worker.count for worker in workers)
        end = Work(0.0)
        for number, pushes in enumerate(pushed):
            end.after(self._apply(number, gradients).after(*pushes))
        return end

    def control(self) -> Work:
        """Build what begins a step: the control calls."""
        if self._transport is None:
            return Work(0.0)
        # Every task has its share of them, and two were measured.
        tasks = (self._job.workers + self._job.servers) / 2
        cpu = self._transport.step_cpu_s
        return Work(
            self._transport.step_s,
            needs=self._processor("control", cpu * tasks / self._transport.step_s),
        )

    def _worker(self, worker: Worker, begin: Work, pushed: list[list[Work]]) -> None:
        pulls = [
            self._move(number, worker, pull=True).after(begin) for number in range(len(self._sizes))
        ]
        previous = begin
        number = 0
        for stage in self._job.stages:
            arrived = pulls[number : number + len(stage.variables)]
            number += len(stage.variables)
            previous = self._layer(worker, stage, True, [previous, *arrived])
        for stage in reversed(self._job.stages):
            previous = self._layer(worker, stage, False, [previous])
            number -= len(stage.variables)
            for variable in range(number, number + len(stage.variables)):
                pushed[variable].append(self._move(variable, worker, pull=False).after(previous))

    def _layer(self, worker: Worker, stage: Stage, forward: bool, after: list[Work]) -> Work:
        """Build a layer's pass: its time, and beside it what the processor does."""
        time = stage.forward_s if forward else stage.backward_s
        timed = Work(worker.slower * time).after(*after)
        done = Work(0.0).after(timed)
        passes = READ_PASSES if forward else WRITE_PASSES
        seconds = passes * self._costs.pass_s_per_byte * sum(stage.variables)
        if not self._site.accelerated and seconds > 0:
            needs = self._processor(f"worker {worker.first}", self._there(worker))
            done.after(Work(seconds, needs=needs).after(*after))
        return done

    def _move(self, number: int, worker: Worker, *, pull: bool) -> Work:
        """Build the transfer of a variable to a worker, or of its gradient to its server."""
        transport = self._transport
        if transport is None:
            return Work(0.0)
        server = number % self._job.servers
        # A message takes its connection, so it counts as more bytes on it, which no link carries.
        size = self._sizes[number]
        amount = size + transport.message_s * transport.stream_bytes_s
        # No link leads to the worker on the server's machine, which has the server's number.
        beside = worker.first <= server < worker.first + worker.count
        over_link = worker.count - 1 if beside else worker.count
        cpu = (transport.cpu_s_per_byte * size + transport.message_cpu_s) / 2 / amount
        needs = self._processor(f"server {server}", cpu * worker.count)
        receiving = self._processor(f"worker {worker.first}", cpu * self._there(worker))
        for resource, need in receiving.items():
            needs[resource] = needs.get(resource, 0.0) + need
        delay = 0.0
        if self._site.link is not None:
            at_server, at_worker = ("out", "in") if pull else ("in", "out")
            for name, need in (
                (f"link {at_server} of server {server}", over_link),
                (f"link {at_worker} of worker {worker.first}", min(over_link, 1)),
            ):
                self.capacities[name] = self._site.link.bytes_s
                needs[name] = need * size / amount
            delay = self._site.link.delay
        stream = (server, worker.first, pull)
        return Work(amount, transport.stream_bytes_s, needs, delay, queue=stream)

    def _apply(self, number: int, gradients: int) -> Work:
        """Build the update of a variable, after the sum of the gradients if there are several."""
        passes = APPLY_PASSES + (gradients + 1 if gradients > 1 else 0)
        seconds = passes * self._costs.pass_s_per_byte * self._sizes[number]
        # Its operations use all threads of the pool.
        needs = self._processor(f"server {number % self._job.servers}", 1.0)
        return Work(seconds, self._site.cores, needs)

    def _there(self, worker: Worker) -> int:
        """Return how many of the workers share the processors of a worker's machine."""
        return worker.count if self._site.one_host else 1

    def _processor(self, task: str, seconds: float) -> dict[str, float]:
        name = "processors" if self._site.one_host else f"processors of {task}"
        self.capacities[name] = float(self._site.cores)
        return {name: seconds}
