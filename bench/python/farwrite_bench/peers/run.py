"""Measures the peers. In each round every peer has one turn, and each round begins one later."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from farwrite.errors import Error, Internal, NotFound
from farwrite.units import format_size
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.peers.peer import Latency, Peer, Running, Stream
from farwrite_bench.peers.plan import WINDOW, Counts, Plan
from farwrite_bench.peers.site import Ground, Site


@dataclass
class Turns:
    """The figures of one peer at one size, by round."""

    samples_us: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    gb_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)
    copies: float | None = None
    variant: str | None = None

    def add(self, size: int, latency: Latency, stream: Stream) -> None:
        """Add a round."""
        gigabytes = size * stream.transfers / 1e9
        self.samples_us += latency.samples_us
        self.p50_us.append(statistics.median(latency.samples_us))
        self.gb_s.append(gigabytes / stream.seconds)
        self.cpu_s_per_gb.append(stream.cpu_seconds / gigabytes)
        self.copies = stream.copies


@dataclass(frozen=True)
class Failed:
    """Why a peer has no figures from a size on."""

    size: int | None
    """None if it could not be started."""
    why: str


@dataclass
class Result:
    """What a run found."""

    settings: dict[str, str] = field(default_factory=dict)
    """By peer."""
    turns: dict[int, dict[str, Turns]] = field(default_factory=dict)
    """By size and peer."""
    failed: dict[str, Failed] = field(default_factory=dict)
    """By peer."""
    missing: dict[str, str] = field(default_factory=dict)
    """By peer, what it lacks."""


class _Alive:
    """The peers that are running."""

    def __init__(self, ground: Ground, result: Result) -> None:
        self._ground = ground
        self._result = result
        self._stacks: dict[str, contextlib.ExitStack] = {}
        self.running: dict[str, Running] = {}

    def start(self, peer: Peer) -> None:
        """Start a peer, unless something that it needs is not installed."""
        if peer.is_missing():
            self._result.missing[peer.key] = f"no module {peer.module}"
            return
        # All end with the ground's stack, even when an error of the benchmark itself ends it.
        stack = self._ground.stack.enter_context(contextlib.ExitStack())
        self._stacks[peer.key] = stack
        with self.watching(peer.key, None):
            running = peer.start(Site(peer.key, self._ground, stack))
            self.running[peer.key] = running
            self._result.settings[peer.key] = running.settings

    @contextlib.contextmanager
    def watching(self, key: str, size: int | None) -> Iterator[None]:
        """Note an error of a peer, and end its processes; the others go on."""
        try:
            yield
        except Error as error:
            if size is None and isinstance(error, NotFound):
                self._result.missing[key] = str(error)
            else:
                self._result.failed[key] = Failed(size, str(error))
            self.running.pop(key, None)
            with contextlib.suppress(Error):
                self._stacks[key].close()


def run(plan: Plan, progress: Progress, logs: Path) -> Result:
    """Measure every size of the plan.

    A peer that cannot be started, fails or moves wrong bytes is in `Result.failed`; the others go
    on. One that is not installed is in `Result.missing`.
    """
    result = Result()
    steps = len(plan.peers) * (1 + len(plan.sizes) * (plan.rounds + 1))
    done = 0

    def step(what: str) -> None:
        nonlocal done
        progress(done / steps, what)
        done += 1

    with contextlib.ExitStack() as stack:
        alive = _Alive(Ground(stack, logs, plan.pool_bytes, WINDOW, plan.quick), result)
        for peer in plan.peers:
            step(f"{peer.name}: start")
            alive.start(peer)
        for size in plan.sizes:
            turns = result.turns[size] = {}
            counts: dict[str, Counts] = {}
            for key in list(alive.running):
                step(f"{format_size(size)}: {key}, warm up")
                with alive.watching(key, size):
                    counts[key] = _warm_up(plan, alive.running[key], key, size)
                    turns[key] = Turns(variant=alive.running[key].variant)
            if not counts:
                break  # every peer has failed, or none is installed
            for number, key in in_turn(list(counts), plan.rounds):
                step(f"{format_size(size)}: {key}, round {number + 1}")
                if key in alive.running:
                    with alive.watching(key, size):
                        turns[key].add(size, *_turn(alive.running[key], key, size, counts[key]))
    return result


def _warm_up(plan: Plan, running: Running, key: str, size: int) -> Counts:
    running.prepare(size)
    first = plan.first_counts(size)
    latencies, transfers = [], []
    for _ in range(2):  # the first one also takes memory for the first time
        start = time.monotonic()
        _check(key, running.latency(size, first.latency))
        middle = time.monotonic()
        _check(key, running.stream(size, first.stream))
        latencies.append((middle - start) / first.latency)
        transfers.append((time.monotonic() - middle) / first.stream)
        if transfers[0] * first.stream > plan.turn_seconds:
            break
    return plan.counts(size, min(latencies), min(transfers))


def _turn(running: Running, key: str, size: int, counts: Counts) -> tuple[Latency, Stream]:
    latency = running.latency(size, counts.latency)
    _check(key, latency)
    stream = running.stream(size, counts.stream)
    _check(key, stream)
    return latency, stream


def _check(key: str, figures: Latency | Stream) -> None:
    if figures.bad:
        raise Internal(f"bench peers: {key} moved {figures.bad} wrong payloads; report this")
