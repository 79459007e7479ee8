"""The emulation of asynchronous training: all transports take turns, network by network."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.box.emulator import DELTA
from farwrite_bench.box.group import ask, box_tasks, mpi_ranks, serving
from farwrite_bench.box.networks import Network
from farwrite_bench.box.orders import Check, Checked, Close, Open, Ran, Start
from farwrite_bench.box.plan import (
    BOX_SHM,
    BOX_TCP,
    BOXES,
    EMULATION,
    MPI,
    MPI_SHARED,
    WARM_UP_STEPS,
    BoxPlan,
)
from farwrite_bench.box.rows import compared, row
from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.process import Task
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

START_SECONDS = 0.05
"""From the order to start until all start."""
BOUND_MS = 1.0
"""Below this the exposed time is mostly that of waking up, so a ratio has a bound and no value."""
TARGETS = {"inception_v1": 3.0, "resnet50": 3.0, "vgg16": 1.5}
"""The least ratio at `TARGET_WORKERS` workers between mpi and box-shm."""
TARGET_WORKERS = 8
CLEARLY_SLOWER = 1.5
"""A way that takes so many times as long as its rival is not measured again."""


@dataclass(frozen=True)
class Way:
    """One way to exchange parameters. A transport with several counts by its fastest."""

    key: str
    transport: str
    per_worker: float
    """Copies of the parameters that each worker costs, in memory."""
    fixed: float
    """Copies of the parameters that the server has whatever the workers are."""

    def memory(self, workers: int, size: int) -> int:
        """Return the bytes that a turn takes."""
        return int((self.per_worker * workers + self.fixed) * size)


WAYS = (
    Way(f"{BOX_SHM} lease", BOX_SHM, 2, 2),
    Way(f"{BOX_SHM} copy", BOX_SHM, 2, 3),
    Way(f"{BOX_TCP} copy", BOX_TCP, 3, 3),
    Way("preposted", MPI, 3, 1),
    Way("one-sided", MPI, 2, 1),
    Way(MPI_SHARED, MPI_SHARED, 2, 1),
)


@dataclass(frozen=True)
class Turn:
    """The exposed milliseconds of one turn: the mean over its steps and workers."""

    milliseconds: float
    verified: bool
    counts: dict[str, int]
    """The counters of all workers together, since the case is open."""


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure all networks with all numbers of workers.

    Without OpenMPI its rows are marked skipped, with the reason.
    """
    rows: list[Row] = []
    for number, workers in enumerate(plan.workers):
        with contextlib.ExitStack() as stack:
            groups = _groups(plan, workers, stack, logs)
            for place, network in enumerate(plan.networks):
                share = (number + place / len(plan.networks)) / len(plan.workers)
                note = functools.partial(progress, share)
                rows += rows_of(plan, groups, network, workers, note)
    return rows


@dataclass(frozen=True)
class Groups:
    """The processes of one number of workers."""

    ranks: Sequence[Control]
    """Of MPI, the server first; empty without MPI."""
    tasks: Sequence[Control]
    """The workers over the box."""
    logs: Path


def _groups(plan: BoxPlan, workers: int, stack: contextlib.ExitStack, logs: Path) -> Groups:
    # Processes for cases that are all too large would be started for nothing.
    smallest = min(plan.network_bytes(network) for network in plan.networks)
    transports = {
        way.transport for way in WAYS if way.memory(workers, smallest) <= plan.available
    } & {*plan.transports}
    ranks: Sequence[Control] = ()
    tasks: Sequence[Task] = ()
    if plan.openmpi is not None and {MPI, MPI_SHARED} & transports:
        log = logs / f"mpi-{workers}.log"
        ranks = stack.enter_context(mpi_ranks(plan.openmpi, workers + 1, log))
    if {*BOXES} & transports:
        tasks = stack.enter_context(box_tasks(workers, logs))
    return Groups(ranks, tasks, logs)


def rows_of(
    plan: BoxPlan,
    groups: Groups,
    network: Network,
    workers: int,
    progress: Callable[[str], None],
) -> list[Row]:
    """Measure one network with one number of workers: a row for each transport."""
    size = plan.network_bytes(network)
    turns: dict[str, list[Turn]] = {}
    skipped: dict[str, str] = {}
    for way in WAYS:
        needed = way.memory(workers, size)
        if way.transport not in plan.transports:
            continue
        if needed > plan.available:
            skipped[way.key] = (
                f"needs {format_size(needed)} of memory, and {format_size(plan.available)} are"
                " available"
            )
        elif way.transport in (MPI, MPI_SHARED) and not groups.ranks:
            skipped[way.key] = plan.why_no_mpi
        else:
            turns[way.key] = []
    with contextlib.ExitStack() as stack:
        known = [way for way in WAYS if way.key in turns]
        held: dict[str, Case] = {}
        if sum(way.memory(workers, size) for way in known) <= plan.available:
            progress(f"{network.name}, {workers} workers")
            for way in known:  # taking memory costs more than a turn
                held[way.key] = stack.enter_context(_opened(groups, way, size, workers))
        began = time.perf_counter()
        for number in range(plan.rounds):
            spent = time.perf_counter() - began
            if number > 0 and spent * (number + 1) / number > plan.network_seconds:
                break
            ways = [way for way in known if is_worth(way, turns, number)]
            for way in ways if number % 2 == 0 else reversed(ways):
                progress(f"{network.name}, {workers} workers, {way.key}")
                with contextlib.ExitStack() as turn:
                    case = held.get(way.key)
                    if case is None:
                        case = turn.enter_context(_opened(groups, way, size, workers))
                    if case.steps == 0 and not plan.quick:
                        _turn(plan, case, network)  # takes the memory that is taken on demand
                    turns[way.key].append(_turn(plan, case, network))
    return list(_rows(plan, network, workers, turns, skipped))


def is_worth(way: Way, turns: dict[str, list[Turn]], number: int) -> bool:
    """Whether to measure a way again: one that fell clearly behind its transport's other is not."""
    rivals = [turns[key] for key in _ways(way.transport, turns) if len(turns[key]) == number]
    mine = turns[way.key]
    return mine in rivals and _median(mine) <= CLEARLY_SLOWER * min(map(_median, rivals))


def _ways(transport: str, turns: dict[str, list[Turn]]) -> list[str]:
    return [way.key for way in WAYS if way.transport == transport and way.key in turns]


def fastest(keys: Sequence[str], turns: dict[str, list[Turn]]) -> str:
    """Return the fastest of the ways that were measured in all rounds."""
    rounds = max(len(turns[key]) for key in keys)
    return min((key for key in keys if len(turns[key]) == rounds), key=lambda k: _median(turns[k]))


@dataclass
class Case:
    """A way that is open: who runs it, and who can look through the shared weights."""

    key: str
    runners: Sequence[Control]
    checker: Control
    workers: int
    steps: int = 0
    """That every worker has made since the case is open."""


def _turn(plan: BoxPlan, case: Case, network: Network) -> Turn:
    steps = plan.steps + WARM_UP_STEPS
    compute = plan.compute_seconds(network)
    order = Start(case.key, time.perf_counter() + START_SECONDS, steps, compute)
    answers = ask(case.runners, order)
    case.steps += steps
    ran = [answer for answer in answers if isinstance(answer, Ran)]
    checked = ask([case.checker], Check(case.key))[0]
    if len(ran) != len(answers) or not isinstance(checked, Checked):
        raise Internal(f"bench box: unexpected answers in a turn over {case.key}; report this")
    exposed = [second for each in ran for second in each.seconds[WARM_UP_STEPS:]]
    expected = case.workers * case.steps * DELTA
    verified = checked.low == checked.high == expected
    counts = {name: sum(each.counts[name] for each in ran) for name in ran[-1].counts}
    return Turn(statistics.fmean(exposed) * 1e3, verified, counts)


@contextlib.contextmanager
def _opened(groups: Groups, way: Way, size: int, workers: int) -> Iterator[Case]:
    if way.transport in BOXES:
        with serving("box", way.memory(workers, size), 0, groups.logs) as endpoint:
            ask(groups.tasks, Open(way.key, size, endpoint))
            yield Case(way.key, groups.tasks, groups.tasks[0], workers)
            ask(groups.tasks, Close(way.key))
        return
    ask(groups.ranks, Open(way.key, size))
    yield Case(way.key, groups.ranks, groups.ranks[0], workers)
    ask(groups.ranks, Close(way.key))


def _rows(
    plan: BoxPlan,
    network: Network,
    workers: int,
    turns: dict[str, list[Turn]],
    skipped: dict[str, str],
) -> Iterator[Row]:
    best = {
        transport: fastest(keys, turns)
        for transport in plan.transports
        if (keys := _ways(transport, turns))
    }
    common: dict[str, Any] = {
        "model": network.key,
        "workers": workers,
        "bytes": plan.network_bytes(network),
        "compute_ms": plan.compute_seconds(network) * 1e3,
    }
    for transport in plan.transports:
        if transport not in best:
            reasons = {skipped[way.key] for way in WAYS if way.transport == transport}
            yield row(EMULATION, transport, **common, skipped="; ".join(sorted(reasons)))
            continue
        measured = turns[best[transport]]
        yield row(
            EMULATION,
            transport,
            **common,
            comm_ms=round(_median(measured), 3),
            spread_ms=_spread(measured),
            rounds=len(measured),
            variant=best[transport],
            **_counted(measured[-1].counts),
            variants={key: round(_median(turns[key]), 3) for key in _ways(transport, turns)},
            verified=all(turn.verified for way in turns for turn in turns[way]),
            **(
                _ratio(plan, measured, turns[best[MPI]], network, workers, transport)
                if transport in BOXES and MPI in best
                else {}
            ),
        )


def _ratio(
    plan: BoxPlan,
    ours: list[Turn],
    theirs: list[Turn],
    network: Network,
    workers: int,
    transport: str,
) -> dict[str, Any]:
    """Return how many times less time is exposed than with MPI, round by round."""
    target = None
    if transport == BOX_SHM and workers == TARGET_WORKERS and not plan.quick:
        target = TARGETS.get(network.key)
    return {
        **compared(
            [turn.milliseconds for turn in theirs],
            [max(turn.milliseconds, BOUND_MS) for turn in ours],
            target,
        ),
        "ratio_is_bound": _median(ours) < BOUND_MS,
    }


def _counted(counts: dict[str, int]) -> dict[str, Any]:
    """Return how the box's clients read: how often again, and how often from a pinned buffer."""
    if not counts or counts["reads"] == 0:  # leases are no reads
        return {}
    return {
        "retries_per_read": round(counts["read_retries"] / counts["reads"], 3),
        "leased_share": round(counts["leased_reads"] / counts["reads"], 4),
        "staged_bytes": counts["staged_bytes"],
    }


def _median(turns: list[Turn]) -> float:
    """Return the median of the turns; a way without one is slower than any other."""
    return statistics.median(turn.milliseconds for turn in turns) if turns else float("inf")


def _spread(turns: list[Turn]) -> list[float]:
    return [
        round(min(turn.milliseconds for turn in turns), 3),
        round(max(turn.milliseconds for turn in turns), 3),
    ]
