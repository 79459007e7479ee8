"""Measures the peers, and makes the rows.

In each round every peer has one turn, and each round begins with another one.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from farwrite.errors import Internal, NotFound
from farwrite.units import format_size
from farwrite_bench._native import ONE_WAY_BYTES
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.failure import end_now, noting
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.peers.peer import BANDWIDTH, FARWRITE, LATENCY, LIMIT, Figures, Peer, Running
from farwrite_bench.peers.plan import Plan
from farwrite_bench.peers.sides import Ground, Site
from farwrite_bench.ratio import digits, percentile, ratio_of_rounds
from farwrite_bench.report.parts import Row
from farwrite_bench.sizes import KIB

SMALL_LIMIT = 1.3
"""Below `AHEAD_FROM`, Farwrite may take so many times as long as UCX."""
AHEAD_FROM = 64 * KIB
"""From this size on, Farwrite is to be ahead of every peer."""
UCX = "ucx"


@dataclass
class Turns:
    """The figures of one peer at one size, by round."""

    size: int
    counts: dict[str, int]
    variant: str | None
    latencies: list[Figures] = field(default_factory=list)
    streams: list[Figures] = field(default_factory=list)

    @property
    def p50_us(self) -> list[float]:
        """The median time of each round."""
        return [statistics.median(each.samples_us) for each in self.latencies]

    @property
    def gb_s(self) -> list[float]:
        """The rate of each round."""
        return [self.gigabytes / each.seconds for each in self.streams]

    @property
    def gigabytes(self) -> float:
        """The bytes that one round streams."""
        return self.size * self.counts[BANDWIDTH] / 1e9


class Entrant:
    """A peer in a run: its processes, its figures, and why it has no more of them."""

    running: Running

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.turns: dict[int, Turns] = {}
        """By size. A size at which it failed has none."""
        self.trouble: Row | None = None
        """What its row says if it is missing or has failed."""
        self._stack = contextlib.ExitStack()

    def start(self, ground: Ground) -> None:
        """Start it, unless something that it needs is not installed."""
        if self.peer.is_missing():
            raise NotFound(f"no module {self.peer.module}")
        # It ends with the ground's stack, even when an error of the benchmark itself ends it.
        ground.stack.enter_context(self._stack)
        self.running = self.peer.start(Site(self.peer.key, ground, self._stack))

    def warm_up(self, plan: Plan, size: int) -> None:
        """Make the first turns at a size, which show how many transfers a turn makes."""
        self.running.prepare(size)
        first = plan.first_counts(size)
        seconds: dict[str, float] = {}
        for _ in range(2):  # the first one also takes memory for the first time
            for kind, transfers in first.items():
                start = time.monotonic()
                self._run(kind, size, transfers)
                took = (time.monotonic() - start) / transfers
                seconds[kind] = min(took, seconds.get(kind, took))
            if seconds[BANDWIDTH] * first[BANDWIDTH] > plan.turn_seconds:
                break
        self.turns[size] = Turns(size, plan.counts(size, seconds), self.running.variant)

    def turn(self, size: int) -> None:
        """Make a turn of a round."""
        turns = self.turns[size]
        latency = self._run(LATENCY, size, turns.counts[LATENCY])
        turns.streams.append(self._run(BANDWIDTH, size, turns.counts[BANDWIDTH]))
        turns.latencies.append(latency)

    def _run(self, kind: str, size: int, transfers: int) -> Figures:
        figures = self.running.run(kind, size, transfers)
        if figures.bad:
            raise Internal(
                f"bench peers: {self.peer.key} moved {figures.bad} wrong payloads; report this"
            )
        return figures

    @contextlib.contextmanager
    def watching(self, size: int | None = None) -> Iterator[None]:
        """Note an error, and end the peer's processes; the others go on."""
        failed: dict[str, str] = {}
        with noting(failed, self.peer.key):
            try:
                yield
            except NotFound as missing:
                if size is not None:
                    raise
                self.trouble = {"missing": str(missing), "install": self.peer.install}
        if failed:
            self.trouble = {"size": size, "error": failed[self.peer.key]}
            if size is not None:
                self.turns.pop(size, None)
        if self.trouble is not None:
            end_now(self._stack)


def run(plan: Plan, progress: Progress, logs: Path) -> list[Row]:
    """Measure every size of the plan, and return one row for each size and peer.

    A peer that cannot be started, fails, moves wrong bytes or is not installed has a row that says
    so; the others go on. All rows have the same keys: a figure that is missing is null.
    """
    steps = len(plan.peers) * (1 + len(plan.sizes) * (plan.rounds + 1))
    done = 0

    def step(what: str) -> None:
        nonlocal done
        progress(done / steps, what)
        done += 1

    entrants = {peer.key: Entrant(peer) for peer in plan.peers}
    with contextlib.ExitStack() as stack:
        ground = Ground(plan, logs, stack)
        for entrant in entrants.values():
            step(f"{entrant.peer.name}: start")
            with entrant.watching():
                entrant.start(ground)
        for size in plan.sizes:
            for key, entrant in entrants.items():
                if entrant.trouble is None:
                    step(f"{format_size(size)}: {key}, warm up")
                    with entrant.watching(size):
                        entrant.warm_up(plan, size)
            alive = [key for key, entrant in entrants.items() if entrant.trouble is None]
            if not alive:
                break
            for number, key in in_turn(alive, plan.rounds):
                step(f"{format_size(size)}: {key}, round {number + 1}")
                if entrants[key].trouble is None:
                    with entrants[key].watching(size):
                        entrants[key].turn(size)
    return [
        _row(entrant, size, entrants)
        for size in plan.sizes
        for entrant in entrants.values()
        if size in entrant.turns
    ] + [
        {**_nothing(entrant.peer), **entrant.trouble}
        for entrant in entrants.values()
        if entrant.trouble is not None
    ]


def _nothing(peer: Peer) -> Row:
    figures = (
        *("size", "variant", "p50_us", "p99_us", "gb_s", "cpu_s_per_gb", "copies", "ratio_of"),
        *("ratio_to_limit", "of_farwrite", "why", "target", "target_met", "p50_us_rounds"),
        *("gb_s_rounds", "rounds", "settings", "error", "missing", "install"),
    )
    named = {"peer": peer.key, "name": peer.name, "language": peer.language}
    return {**named, **dict.fromkeys(figures)}


def _row(entrant: Entrant, size: int, entrants: dict[str, Entrant]) -> Row:
    def turns_of(key: str) -> Turns | None:
        return entrants[key].turns.get(size) if key in entrants else None

    peer, mine = entrant.peer, entrant.turns[size]
    samples_us = [sample for each in mine.latencies for sample in each.samples_us]
    cpu_s_per_gb = statistics.median(each.cpu_seconds for each in mine.streams) / mine.gigabytes
    counted = mine.streams[-1].copies
    compared = peer.key not in (LIMIT, *FARWRITE.values())
    of_farwrite = _share(turns_of(FARWRITE[peer.language]), mine) if compared else None
    least = least_gain(peer.key, size) if compared else None
    return {
        **_nothing(peer),
        "size": size,
        "variant": mine.variant,
        "p50_us": digits(statistics.median(samples_us)),
        "p99_us": digits(percentile(samples_us, 0.99)),
        "gb_s": digits(statistics.median(mine.gb_s)),
        "cpu_s_per_gb": digits(cpu_s_per_gb),
        "copies": (
            peer.copies(size) if counted is None else round(counted / mine.counts[BANDWIDTH], 3)
        ),
        "ratio_of": "gb_s" if size >= ONE_WAY_BYTES else "p50_us",
        "ratio_to_limit": _share(mine, turns_of(LIMIT)) if peer.key != LIMIT else None,
        "of_farwrite": of_farwrite,
        "why": peer.ahead if of_farwrite is not None and of_farwrite["median"] < 1 else None,
        "target": least,
        "target_met": (
            None if least is None or of_farwrite is None else of_farwrite["median"] >= least
        ),
        "p50_us_rounds": [digits(each) for each in mine.p50_us],
        "gb_s_rounds": [digits(each) for each in mine.gb_s],
        "rounds": len(mine.streams),
        "settings": entrant.running.settings,
    }


def least_gain(key: str, size: int) -> float | None:
    """Return how many times better than a peer Farwrite is to be at a size; None for any."""
    if size >= AHEAD_FROM:
        return 1.0
    return round(1 / SMALL_LIMIT, 3) if key == UCX else None


def _share(mine: Turns | None, other: Turns | None) -> dict[str, float] | None:
    """Return how many times better `mine` is, round by round: its rate, or the inverse of time."""
    if mine is None or other is None:
        return None
    if mine.size >= ONE_WAY_BYTES:
        return ratio_of_rounds(mine.gb_s, other.gb_s)
    return ratio_of_rounds(other.p50_us, mine.p50_us)
