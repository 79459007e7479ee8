"""Measures the costs of this machine and of its transports, with one server and one worker.

Three artificial networks separate the costs of bytes, messages and steps. No network of the papers
is part of it.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from farwrite_bench.cluster.group import Turn
from farwrite_bench.harness.benchmark import Progress, stage
from farwrite_experiments.capacity.costs import Costs, TransportCosts
from farwrite_experiments.capacity.job import Job, Site, stages
from farwrite_experiments.capacity.predict import APPLY_PASSES, READ_PASSES, WRITE_PASSES, predict
from farwrite_experiments.cluster.machines import Machine
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Outline, Value
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.pace import Pace
from farwrite_experiments.train.plan import EMULATED, ONE_PROCESS, Case, Way
from farwrite_experiments.train.run import measure

BULK_SIDE = 4096
"""The side of a square matrix of 64 MiB."""
SMALL_SIDE = 8
GATES = 42


def _bulk(net: Outline, value: Value, classes: int) -> list[Value]:
    value = net.dense(value, "first", BULK_SIDE)
    return [net.dense(value, "second", classes, activated=False)]


def _messages(net: Outline, value: Value, _classes: int) -> list[Value]:
    return [net.recurrent(value, "small", GATES, SMALL_SIDE)]


def _control(net: Outline, value: Value, classes: int) -> list[Value]:
    return [net.dense(value, "only", classes, activated=False)]


BULK = Network("probe_bulk", "two matrices of 64 MiB", (BULK_SIDE,), BULK_SIDE, 0.0, _bulk)
"""Its costs are those of bytes."""
MESSAGES = Network("probe_messages", "126 small variables", (1, SMALL_SIDE), 1, 0.0, _messages)
"""Its costs are those of messages: 84 matrices of 256 bytes, and 42 vectors."""
CONTROL = Network("probe_control", "two numbers", (1,), 1, 0.0, _control)
"""Its costs are those of a step."""
PROBES = (BULK, MESSAGES, CONTROL)
STEPS = {BULK.key: 5, MESSAGES.key: 60, CONTROL.key: 120}
"""Steps of a turn: the kernel counts the time of processors in hundredths of a second."""
ROUNDS, QUICK_ROUNDS = 5, 1
FASTEST_BYTES_S, SLOWEST_BYTES_S = 1e12, 1e6
"""Between them lies the rate of every connection."""
HALVINGS = 60
LEAST_S = 1e-9
"""What a cost is at least: noise can make a difference of two times negative."""


Timed = npt.NDArray[np.float64]
"""Of a step of a probe: its seconds, and the seconds that all processors of the machine worked."""
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
    for number, network in enumerate(PROBES):
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
    busy = sum(turn.busy_seconds for turn in turns) / len(steps)
    return np.array([statistics.median(steps), busy])


def costs_of(steps: Steps, ways: Sequence[Way], cores: int | None = None) -> Costs:
    """Compute the costs from the steps of the probes."""
    local = {key: of_probe[ONE_PROCESS.key] for key, of_probe in steps.items()}
    passes = READ_PASSES + WRITE_PASSES + APPLY_PASSES
    busy = float(local[BULK.key][1] - local[CONTROL.key][1])
    costs = Costs(
        cores=cores or len(os.sched_getaffinity(0)),
        pass_s_per_byte=max(busy / (passes * BULK.bytes), LEAST_S / BULK.bytes),
        transports={},
        measured={
            key: {
                way: dict(zip(("step_s", "busy_s"), timed.round(6).tolist(), strict=True))
                for way, timed in of_probe.items()
            }
            for key, of_probe in steps.items()
        },
    )
    found = {}
    for way in ways:
        control, messages, bulk = (
            steps[probe.key][way.key] - local[probe.key] for probe in (CONTROL, MESSAGES, BULK)
        )
        bulk_step_s = float(steps[BULK.key][way.key][0])
        found[way.key] = _of_transport(costs, control, messages, bulk, bulk_step_s)
    return replace(costs, transports=found)


def _of_transport(
    costs: Costs, control: Timed, messages: Timed, bulk: Timed, bulk_step_s: float
) -> TransportCosts:
    """Compute the costs of a transport from what its probes take beside those of one process."""
    # Every variable is pulled, and every gradient is pushed.
    few, many, large = (2 * len(probe.variables) for probe in (CONTROL, MESSAGES, BULK))
    message = np.maximum((messages - control) / (many - few), LEAST_S)
    step = np.maximum(control - few * message, LEAST_S)
    cpu = max(float((bulk - step - large * message)[1]), LEAST_S) / (2 * BULK.bytes)
    found = TransportCosts(cpu, FASTEST_BYTES_S, *message.tolist(), *step.tolist())
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
