"""The emulation of asynchronous training: all transports take turns, network by network."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farwrite.units import format_size
from farwrite_bench.box import mpi
from farwrite_bench.box.openmpi import mpi_ranks
from farwrite_bench.box.plan import (
    BOX_SHM,
    BOX_TCP,
    BOXES,
    EMULATION,
    MPI,
    MPI_SHARED,
    WARM_UP_STEPS,
    BoxPlan,
    Network,
)
from farwrite_bench.box.process import (
    START_SECONDS,
    Call,
    Turn,
    ask,
    opened,
    processes,
    served_box,
    serving,
)
from farwrite_bench.box.rows import compared, row
from farwrite_bench.box.worker import DELTA, box_worker
from farwrite_bench.cluster.control import Control
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.report.parts import Row

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
    make: Callable[..., AbstractContextManager[Turn]]
    """Opens the turn of a worker of the box, or of a rank of MPI."""

    def memory(self, workers: int, size: int) -> int:
        """Return the bytes that a turn takes."""
        return int((self.per_worker * workers + self.fixed) * size)


WAYS = (
    Way(f"{BOX_SHM} lease", BOX_SHM, 2, 2, box_worker),
    Way(f"{BOX_SHM} copy", BOX_SHM, 2, 3, box_worker),
    Way(f"{BOX_TCP} copy", BOX_TCP, 3, 3, box_worker),
    Way("preposted", MPI, 3, 1, mpi.preposted),
    Way("one-sided", MPI, 2, 1, mpi.one_sided),
    Way(MPI_SHARED, MPI_SHARED, 2, 1, mpi.shared),
)


@dataclass
class Measured:
    """What the turns of one way gave."""

    milliseconds: list[float] = field(default_factory=list)
    """Exposed in each turn: the mean over its steps and workers."""
    verified: bool = True
    counts: dict[str, int] = field(default_factory=dict)
    """The counters of all workers together, since the case is open."""

    @property
    def median(self) -> float:
        """The median of the turns; a way without one is slower than any other."""
        return statistics.median(self.milliseconds) if self.milliseconds else float("inf")


Turns = dict[str, Measured]
"""By the key of the way."""


Runners = dict[str, Sequence[Control]]
"""The processes of each transport: workers over the box, and ranks of MPI, the server first."""


def run(plan: BoxPlan, progress: Progress, logs: Path) -> list[Row]:
    """Measure all networks with all numbers of workers.

    Without OpenMPI its rows are marked skipped, with the reason.
    """
    rows: list[Row] = []
    for number, workers in enumerate(plan.workers):
        with contextlib.ExitStack() as stack:
            runners = _runners(plan, workers, stack, logs)
            for place, network in enumerate(plan.networks):
                share = (number + place / len(plan.networks)) / len(plan.workers)
                note = functools.partial(progress, share)
                rows += _measure(plan, runners, network, workers, logs, note)
    return rows


def _runners(plan: BoxPlan, workers: int, stack: contextlib.ExitStack, logs: Path) -> Runners:
    # Processes for cases that are all too large would be started for nothing.
    smallest = min(plan.network_bytes(network) for network in plan.networks)
    transports = {
        way.transport for way in WAYS if way.memory(workers, smallest) <= plan.available
    } & {*plan.transports}
    found: Runners = {}
    if plan.openmpi is not None and {MPI, MPI_SHARED} & transports:
        log = logs / f"mpi-{workers}.log"
        ranks = stack.enter_context(mpi_ranks(plan.openmpi, workers + 1, log))
        found |= {MPI: ranks, MPI_SHARED: ranks}
    if {*BOXES} & transports:
        tasks = stack.enter_context(processes(workers, logs))
        found |= dict.fromkeys(BOXES, tasks)
    return found


def _measure(
    plan: BoxPlan,
    runners: Runners,
    network: Network,
    workers: int,
    logs: Path,
    progress: Callable[[str], None],
) -> list[Row]:
    """Measure one network with one number of workers: a row for each transport."""
    size = plan.network_bytes(network)
    turns: Turns = {}
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
        elif way.transport not in runners:
            skipped[way.key] = plan.why_no_mpi
        else:
            turns[way.key] = Measured()
    known = [way for way in WAYS if way.key in turns]
    opened_case = functools.partial(_opened, runners, workers, size, logs)
    with contextlib.ExitStack() as stack:
        held: dict[str, Case] = {}
        if sum(way.memory(workers, size) for way in known) <= plan.available:
            progress(f"{network.name}, {workers} workers")
            for way in known:  # taking memory costs more than a turn
                held[way.key] = stack.enter_context(opened_case(way))
        began = time.perf_counter()
        for number in range(plan.rounds):
            spent = time.perf_counter() - began
            if number > 0 and spent * (number + 1) / number > plan.network_seconds:
                break
            ways = [way for way in known if is_worth(way, turns, number)]
            for way in ways if number % 2 == 0 else reversed(ways):
                progress(f"{network.name}, {workers} workers, {way.key}")
                with contextlib.ExitStack() as turn:
                    case = held.get(way.key) or turn.enter_context(opened_case(way))
                    if case.steps == 0 and not plan.quick:
                        # takes the memory that is taken on demand
                        _turn(plan, case, network, Measured())
                    _turn(plan, case, network, turns[way.key])
    return list(_rows(plan, network, workers, turns, skipped))


def is_worth(way: Way, turns: Turns, number: int) -> bool:
    """Whether to measure a way again: one that fell clearly behind its transport's other is not."""
    keys = _ways(way.transport, turns)
    rivals = [turns[key] for key in keys if len(turns[key].milliseconds) == number]
    mine = turns[way.key]
    if len(mine.milliseconds) < number:
        return False
    return mine.median <= CLEARLY_SLOWER * min(each.median for each in rivals)


def _ways(transport: str, turns: Turns) -> list[str]:
    return [way.key for way in WAYS if way.transport == transport and way.key in turns]


def fastest(keys: Sequence[str], turns: Turns) -> str:
    """Return the fastest of the ways that were measured in all rounds."""
    rounds = max(len(turns[key].milliseconds) for key in keys)
    return min(
        (key for key in keys if len(turns[key].milliseconds) == rounds),
        key=lambda key: turns[key].median,
    )


@dataclass
class Case:
    """A way that is open, and who runs it. The first of them can look through the weights."""

    key: str
    runners: Sequence[Control]
    workers: int
    steps: int = 0
    """That every worker has made since the case is open."""


def _turn(plan: BoxPlan, case: Case, network: Network, measured: Measured) -> None:
    steps = plan.steps + WARM_UP_STEPS
    compute = plan.compute_seconds(network)
    arguments = (time.perf_counter() + START_SECONDS, steps, compute)
    answers = ask(case.runners, Call(case.key, "run", arguments))
    case.steps += steps
    (ends,) = ask(case.runners[:1], Call(case.key, "ends"))
    exposed = [second for seconds, _ in answers for second in seconds[WARM_UP_STEPS:]]
    expected = case.workers * case.steps * DELTA
    measured.milliseconds.append(statistics.fmean(exposed) * 1e3)
    measured.verified &= ends == (expected, expected)
    every = [counts for _, counts in answers]
    measured.counts = {name: sum(each[name] for each in every) for name in every[-1]}


@contextlib.contextmanager
def _opened(runners: Runners, workers: int, size: int, logs: Path, way: Way) -> Iterator[Case]:
    members = runners[way.transport]
    with contextlib.ExitStack() as stack:
        arguments: tuple[Any, ...] = (size,)
        if way.transport in BOXES:
            place = stack.enter_context(serving(logs, served_box, way.memory(workers, size)))
            fabric = way.transport.removeprefix("box-")
            arguments = (place, size, fabric, way.key.endswith("lease"))
        stack.enter_context(opened(members, way.key, way.make, *arguments))
        yield Case(way.key, members, workers)


def _rows(
    plan: BoxPlan, network: Network, workers: int, turns: Turns, skipped: dict[str, str]
) -> Iterator[Row]:
    common = {
        "model": network.key,
        "workers": workers,
        "bytes": plan.network_bytes(network),
        "compute_ms": plan.compute_seconds(network) * 1e3,
    }
    best = {
        transport: fastest(keys, turns)
        for transport in plan.transports
        if (keys := _ways(transport, turns))
    }
    for transport in plan.transports:
        if transport not in best:
            reasons = {skipped[way.key] for way in WAYS if way.transport == transport}
            yield row(EMULATION, transport, **common, skipped="; ".join(sorted(reasons)))
            continue
        measured = turns[best[transport]]
        ours = measured.milliseconds
        made = row(
            EMULATION,
            transport,
            **common,
            comm_ms=round(measured.median, 3),
            spread_ms=[round(min(ours), 3), round(max(ours), 3)],
            rounds=len(ours),
            variant=best[transport],
            **_counted(measured.counts),
            variants={key: round(turns[key].median, 3) for key in _ways(transport, turns)},
            verified=all(each.verified for each in turns.values()),
        )
        if transport in BOXES and MPI in best:
            # How many times less time is exposed than with MPI, round by round.
            aimed = transport == BOX_SHM and workers == TARGET_WORKERS and not plan.quick
            made |= compared(
                turns[best[MPI]].milliseconds,
                [max(each, BOUND_MS) for each in ours],
                TARGETS.get(network.key) if aimed else None,
            )
            made["ratio_is_bound"] = measured.median < BOUND_MS
        yield made


def _counted(counts: dict[str, int]) -> dict[str, Any]:
    """Return how the box's clients read: how often again, and how often from a pinned buffer."""
    if not counts or counts["reads"] == 0:  # leases are no reads
        return {}
    return {
        "retries_per_read": round(counts["read_retries"] / counts["reads"], 3),
        "leased_share": round(counts["leased_reads"] / counts["reads"], 4),
        "staged_bytes": counts["staged_bytes"],
    }
