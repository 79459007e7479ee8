"""Measures the time and the memory of a training step under several settings.

Each setting has a parameter server, a worker, and a client that runs the steps. They train the
network of ``demo training`` on random images. All clusters live at once and take turns in rotating
order, so that other load on the machine affects all of them alike. Compare the medians of the
ratios within rounds.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.seat import Look, Seat, Threads
from farwrite_bench.cluster.transport import FARWRITE, Transport
from farwrite_bench.demo.training.plan import Job, Model

JOBS = ("ps", "worker")
LEARNING_RATE = 0.05
SHOWN = (
    "zero_copy_tensors",
    "staged_foreign_memory",
    "staged_lent_again",
    "copies",
    "bytes_copied",
    "copy_on_write",
    "traced_allocations",
)
"""Counters, per step, that differ between settings."""


@dataclass(frozen=True)
class Setting:
    """A name, the environment of its tasks, and the transport of its tensors."""

    name: str
    environment: Mapping[str, str]
    transport: Transport = FARWRITE

    @property
    def with_environment(self) -> Transport:
        """The transport, with the environment of this setting added."""
        return replace(
            self.transport, environment={**self.transport.environment, **self.environment}
        )


@dataclass(frozen=True)
class Plan:
    """The network, and how long to train it."""

    widths: tuple[int, ...] = (64, 1024, 1024, 10)
    batch: int = 32
    """With a larger batch, tensors that stay in their task take more of the memory."""
    rounds: int = 25
    steps: int = 6
    """Steps of a turn. The first is not counted, because the other clusters used the caches."""
    warm_up: int = 24
    """Steps before the first turn; more than tracing takes."""
    threads: Threads = field(default_factory=lambda: Threads(intra_op=1, inter_op=4))


@dataclass(frozen=True)
class Begin:
    """A request to the client: train this job in this seat."""

    seat: Seat
    job: Job


@dataclass(frozen=True)
class Take:
    """A request to the client: run so many steps, and answer with the seconds of each."""

    steps: int


@dataclass(frozen=True)
class Weigh:
    """A request to the client: answer with the fingerprint of the weights."""


class _Cluster:
    """The three processes of one setting."""

    def __init__(
        self, setting: Setting, plan: Plan, logs: Path, stack: contextlib.ExitStack
    ) -> None:
        transport = setting.with_environment
        addresses = free_addresses(len(JOBS) + 1)
        cluster = {job: [at] for job, at in zip((*JOBS, "chief"), addresses, strict=True)}

        def start(job: str, module: str) -> ForkedTask:
            log = logs / f"{setting.name}-{job}.log"
            return stack.enter_context(
                ForkedTask(f"{setting.name} {job}", module, transport.environment, log)
            )

        def seat(job: str) -> Seat:
            return Seat(cluster, job, 0, transport, plan.threads)

        self.setting = setting
        self.servers = [start(job, "farwrite_bench.cluster.server") for job in JOBS]
        # Started last, so that it ends first, while its servers still answer.
        self.client = start("chief", "farwrite_experiments.training_client")
        for job, server in zip(JOBS, self.servers, strict=True):
            server.send(seat(job))
        for server in self.servers:
            server.receive()
        total = plan.warm_up + plan.rounds * plan.steps
        training = Job(Model(plan.widths), total, LEARNING_RATE, 0, batch=plan.batch)
        self.client.send(Begin(seat("chief"), training))
        self.client.receive()

    def take(self, steps: int) -> list[float]:
        answer = self.client.ask(Take(steps))
        if not isinstance(answer, list):
            raise Internal(f"bench: unexpected answer of the client: {answer!r}; report this")
        return answer

    def look(self) -> list[Readings]:
        answers = [server.ask(Look(memory=True)) for server in self.servers]
        readings = [answer for answer in answers if isinstance(answer, Readings)]
        if len(readings) != len(answers):
            raise Internal(f"bench: unexpected answers of tasks: {answers!r}; report this")
        return readings


def measure(
    settings: Sequence[Setting],
    plan: Plan,
    logs: Path,
    progress: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Train under every setting, in turns.

    Returns
    -------
    dict
        For JSON. ``settings`` has for each setting: ``step_ms``, the median of each turn;
        ``median_step_ms``; ``first_steps_ms``; ``of_first``, the median over the rounds of its step
        divided by the step of the first setting; the counters per step; and the memory of each
        task. ``load`` is the load, and ``same_weights`` is true if all settings ended with the same
        bits.

    Raises
    ------
    PeerDead
        If a process fails. The message has the end of its log, which is in `logs`.
    """
    loads = [os.getloadavg()[0]]
    with contextlib.ExitStack() as stack:
        clusters = [_Cluster(setting, plan, logs, stack) for setting in settings]
        first = [cluster.take(plan.warm_up) for cluster in clusters]
        before = [cluster.look() for cluster in clusters]
        turns: list[list[float]] = [[] for _ in clusters]
        for number in range(plan.rounds):
            progress(number / plan.rounds)
            for offset in range(len(clusters)):
                which = (number + offset) % len(clusters)
                taken = clusters[which].take(plan.steps)
                turns[which].append(1e3 * statistics.median(taken[1:]))
        loads.append(os.getloadavg()[0])
        after = [cluster.look() for cluster in clusters]
        weights = {cluster.client.ask(Weigh()) for cluster in clusters}
    return {
        "widths": list(plan.widths),
        "batch": plan.batch,
        "rounds": plan.rounds,
        "load": loads,
        "same_weights": len(weights) == 1,
        "settings": [
            {
                "name": setting.name,
                "environment": dict(setting.environment),
                "step_ms": [round(turn, 4) for turn in turns[which]],
                "median_step_ms": round(statistics.median(turns[which]), 4),
                "first_steps_ms": [round(1e3 * seconds, 3) for seconds in first[which]],
                "of_first": _of(turns[which], turns[0]),
                "a_step": _a_step(before[which], after[which], plan.rounds * plan.steps),
                "memory": [_memory(reading) for reading in after[which]],
            }
            for which, setting in enumerate(settings)
        ],
    }


def _of(mine: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    ratios = sorted(a / b for a, b in zip(mine, other, strict=True))
    return {
        "median": round(statistics.median(ratios), 4),
        "low": round(ratios[len(ratios) // 4], 4),
        "high": round(ratios[-1 - len(ratios) // 4], 4),
    }


def _a_step(before: Sequence[Readings], after: Sequence[Readings], steps: int) -> dict[str, float]:
    spent = {"cpu_ms": 0.0}
    for first, last in zip(before, after, strict=True):
        spent["cpu_ms"] += 1e3 * (last.cpu_seconds - first.cpu_seconds)
        for name in SHOWN:
            gained = (last.counters or {}).get(name, 0) - (first.counters or {}).get(name, 0)
            spent[name] = spent.get(name, 0) + gained
    return {name: round(value / steps, 3) for name, value in spent.items()}


def _memory(reading: Readings) -> dict[str, Any]:
    return {
        "task": reading.task,
        "peak_rss": reading.peak_rss,
        "pss": reading.pss,
        "registered_peak": reading.registered_peak,
        "registered": reading.registered,
    }
