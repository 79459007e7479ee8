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
from farwrite_bench.failure import Crew, end_now, noting
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


Runners = dict[str, Crew[Sequence[Control]]]
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
                rows += _Emulation(plan, runners, network, workers, logs).rows(note)
    return rows


def _runners(plan: BoxPlan, workers: int, stack: contextlib.ExitStack, logs: Path) -> Runners:
    found: Runners = {}
    openmpi = plan.openmpi
    if openmpi is not None:
        log = logs / f"mpi-{workers}.log"
        ranks = stack.enter_context(Crew(lambda: mpi_ranks(openmpi, workers + 1, log)))
        found |= {MPI: ranks, MPI_SHARED: ranks}
    tasks = stack.enter_context(Crew(lambda: processes(workers, logs)))
    return found | dict.fromkeys(BOXES, tasks)


class _Emulation:
    """One network with one number of workers: its turns, and a row for each transport."""

    def __init__(
        self, plan: BoxPlan, runners: Runners, network: Network, workers: int, logs: Path
    ) -> None:
        self._plan, self._runners, self._logs = plan, runners, logs
        self._network, self._workers = network, workers
        self._size = plan.network_bytes(network)
        self._turns: Turns = {}
        self._reasons: dict[str, str] = {}
        """Why ways were skipped."""
        self._failed: dict[str, str] = {}
        """Why ways have failed, by their keys."""
        self._held: dict[str, tuple[contextlib.ExitStack, Case]] = {}
        """The ways that are open from their first turn to their last."""

    def rows(self, progress: Callable[[str], None]) -> list[Row]:
        """Measure."""
        plan, case = self._plan, f"{self._network.name}, {self._workers} workers"
        ways = self._choose()
        with contextlib.ExitStack() as stack:
            if sum(way.memory(self._workers, self._size) for way in ways) <= plan.available:
                progress(case)
                for way in ways:  # taking memory costs more than a turn
                    if way.key in self._turns:
                        with self._trying(way):
                            self._hold(way, stack)
            began = time.perf_counter()
            for number in range(plan.rounds):
                spent = time.perf_counter() - began
                if number > 0 and spent * (number + 1) / number > plan.network_seconds:
                    break
                known = [way for way in ways if is_worth(way, self._turns, number)]
                for way in known if number % 2 == 0 else reversed(known):
                    if way.key in self._turns:
                        progress(f"{case}, {way.key}")
                        with self._trying(way):
                            self._turn(way)
            for way in reversed(ways):
                if way.key in self._held:
                    with self._trying(way):
                        self._held.pop(way.key)[0].close()
        rows = _rows(plan, self._network, self._workers, self._turns, self._reasons, self._failed)
        return list(rows)

    def _choose(self) -> list[Way]:
        """Return the ways to measure, and note why the others are skipped."""
        available = self._plan.available
        for way in WAYS:
            if way.transport not in self._plan.transports:
                continue
            if (needed := way.memory(self._workers, self._size)) > available:
                self._reasons[way.key] = (
                    f"needs {format_size(needed)} of memory, and {format_size(available)} are"
                    " available"
                )
            elif way.transport not in self._runners:
                self._reasons[way.key] = self._plan.why_no_mpi
            else:
                self._turns[way.key] = Measured()
        return [way for way in WAYS if way.key in self._turns]

    @contextlib.contextmanager
    def _trying(self, way: Way) -> Iterator[None]:
        """Note a failure of the way's transport, and end its processes.

        Other transports of these processes keep their turns, and have further ones in new
        processes.
        """
        same = _ways(way.transport, self._turns)
        with noting(self._failed, *same):
            yield
        if way.key not in self._failed:
            return
        for key in same:
            del self._turns[key]
        crew = self._runners[way.transport]
        for each in WAYS:
            if each.key in self._held and self._runners[each.transport] is crew:
                end_now(self._held.pop(each.key)[0])
        crew.end()

    def _hold(self, way: Way, stack: contextlib.ExitStack) -> None:
        own = stack.enter_context(contextlib.ExitStack())
        self._held[way.key] = own, own.enter_context(self._opened(way))

    def _turn(self, way: Way) -> None:
        with contextlib.ExitStack() as stack:
            _, case = self._held.get(way.key) or (None, stack.enter_context(self._opened(way)))
            if case.steps == 0 and not self._plan.quick:
                # takes the memory that is taken on demand
                _turn(self._plan, case, self._network, Measured())
            _turn(self._plan, case, self._network, self._turns[way.key])

    def _opened(self, way: Way) -> contextlib.AbstractContextManager[Case]:
        members = self._runners[way.transport].members()
        return _opened(members, self._workers, self._size, self._logs, way)


def is_worth(way: Way, turns: Turns, number: int) -> bool:
    """Whether to measure a way again: one that fell clearly behind its transport's other is not."""
    if way.key not in turns:  # it has failed
        return False
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
def _opened(
    members: Sequence[Control], workers: int, size: int, logs: Path, way: Way
) -> Iterator[Case]:
    with contextlib.ExitStack() as stack:
        arguments: tuple[Any, ...] = (size,)
        if way.transport in BOXES:
            place = stack.enter_context(serving(logs, served_box, way.memory(workers, size)))
            fabric = way.transport.removeprefix("box-")
            arguments = (place, size, fabric, way.key.endswith("lease"))
        stack.enter_context(opened(members, way.key, way.make, *arguments))
        yield Case(way.key, members, workers)


def _rows(
    plan: BoxPlan,
    network: Network,
    workers: int,
    turns: Turns,
    skipped: dict[str, str],
    failed: dict[str, str],
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
            keys = [way.key for way in WAYS if way.transport == transport]
            if failures := [failed[key] for key in keys if key in failed]:
                yield row(EMULATION, transport, **common, error=failures[0])
                continue
            reasons = {skipped[key] for key in keys}
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
