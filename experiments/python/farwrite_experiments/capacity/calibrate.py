"""Measures the costs of this machine and of its transports, with one server and one worker.

Three artificial networks (`farwrite_experiments.networks.probes`) separate the costs of bytes,
messages and steps. No network of the papers is part of it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.group import Turn
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_experiments.capacity.costs import Costs, TransportCosts
from farwrite_experiments.capacity.job import Job, Site, stages
from farwrite_experiments.capacity.predict import predict
from farwrite_experiments.capacity.step import APPLY_PASSES, READ_PASSES, WRITE_PASSES
from farwrite_experiments.cluster.machines import Machine
from farwrite_experiments.networks.probes import BULK, CONTROL, MESSAGES, PROBES
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.pace import Pace
from farwrite_experiments.train.plan import EMULATED, ONE_PROCESS, Case, Way
from farwrite_experiments.train.run import measure

STEPS = {BULK.key: 5, MESSAGES.key: 60, CONTROL.key: 120}
"""Steps of a turn: the kernel counts the time of processors in hundredths of a second."""
ROUNDS, QUICK_ROUNDS = 5, 1
FASTEST_BYTES_S, SLOWEST_BYTES_S = 1e12, 1e6
"""Between them lies the rate of every connection."""
HALVINGS = 60
LEAST_S = 1e-9
"""What a cost is at least: noise can make a difference of two times negative."""


@dataclass(frozen=True)
class Timed:
    """The step of a probe over one way."""

    step_s: float
    busy_s: float
    """Seconds of processors in a step, of the whole machine."""


Steps = Mapping[str, Mapping[str, Timed]]
"""By the key of the probe, and the key of the way."""


def calibrate(
    ways: Sequence[Way],
    rounds: int,
    machines: Mapping[str, Sequence[Machine]] | None,
    logs: Path,
    report: Progress,
) -> Costs:
    """Measure all probes over all ways in turn.

    Parameters
    ----------
    ways : sequence of Way
        What is calibrated.
    machines : mapping, optional
        The machines of the jobs "ps" and "worker"; None puts both on this one.
    """
    everything = [ONE_PROCESS, *(way for way in ways if way != ONE_PROCESS)]
    steps: dict[str, dict[str, Timed]] = {}
    for number, network in enumerate(PROBES.values()):
        case = Case(network.key, EMULATED, 1, servers=1, workers=1, other=network)
        share = stage(report, number, len(PROBES), f"calibration: {network.name}")
        with contextlib.ExitStack() as stack:
            clusters = {
                way.key: start(way, case.layout, logs / network.key, stack, machines)
                for way in everything
            }
            pace = Pace(rounds, STEPS[network.key], batches=(1,))
            turns, _load = measure(case, clusters, pace, share)
        steps[network.key] = {key: _timed(of_way) for key, of_way in turns.items()}
    return costs_of(steps, [way for way in everything if not way.is_local])


def _timed(turns: Sequence[Turn]) -> Timed:
    steps = [seconds for turn in turns for seconds in turn.seconds]
    return Timed(statistics.median(steps), sum(turn.busy_seconds for turn in turns) / len(steps))


def costs_of(steps: Steps, ways: Sequence[Way], cores: int | None = None) -> Costs:
    """Compute the costs from the steps of the probes."""
    local = {key: of_probe[ONE_PROCESS.key] for key, of_probe in steps.items()}
    passes = READ_PASSES + WRITE_PASSES + APPLY_PASSES
    busy = local[BULK.key].busy_s - local[CONTROL.key].busy_s
    costs = Costs(
        cores=cores or len(os.sched_getaffinity(0)),
        pass_s_per_byte=max(busy / (passes * BULK.bytes), LEAST_S / BULK.bytes),
        transports={},
        measured={
            key: {way: _facts(timed) for way, timed in of_probe.items()}
            for key, of_probe in steps.items()
        },
    )
    found = {}
    for way in ways:
        more = {
            key: Timed(
                of_probe[way.key].step_s - local[key].step_s,
                of_probe[way.key].busy_s - local[key].busy_s,
            )
            for key, of_probe in steps.items()
        }
        found[way.key] = _of_transport(costs, more, steps[BULK.key][way.key].step_s)
    return replace(costs, transports=found)


def _of_transport(costs: Costs, more: Mapping[str, Timed], bulk_step_s: float) -> TransportCosts:
    """Compute the costs of a transport from what its probes take beside those of one process."""
    control, messages, bulk = (more[probe.key] for probe in (CONTROL, MESSAGES, BULK))
    # Every variable is pulled, and every gradient is pushed.
    few, many, large = (2 * len(probe.variables) for probe in (CONTROL, MESSAGES, BULK))
    message = max((messages.step_s - control.step_s) / (many - few), LEAST_S)
    message_cpu = max((messages.busy_s - control.busy_s) / (many - few), LEAST_S)
    step = max(control.step_s - few * message, LEAST_S)
    step_cpu = max(control.busy_s - few * message_cpu, LEAST_S)
    moved = 2 * BULK.bytes
    cpu = max((bulk.busy_s - step_cpu - large * message_cpu) / moved, LEAST_S / moved)
    found = TransportCosts(cpu, FASTEST_BYTES_S, message, message_cpu, step, step_cpu)
    return replace(found, stream_bytes_s=_stream(costs, found, bulk_step_s))


def _stream(costs: Costs, transport: TransportCosts, bulk_step_s: float) -> float:
    """Return the rate of a connection with which the model takes as long as the bulk probe did."""
    job = Job(stages(BULK.layers, 0.0), workers=1, servers=1)
    # The probe's link was too fast to matter, and both tasks shared this machine's processors.
    site = Site(None, costs.cores, one_host=True)
    slow, fast = SLOWEST_BYTES_S, FASTEST_BYTES_S
    for _ in range(HALVINGS):
        middle = (slow * fast) ** 0.5
        tried = replace(transport, stream_bytes_s=middle)
        if predict(job, site, costs, tried).step_s > bulk_step_s:
            slow = middle
        else:
            fast = middle
    return fast


def _facts(timed: Timed) -> dict[str, Any]:
    return {"step_s": round(timed.step_s, 6), "busy_s": round(timed.busy_s, 6)}
