"""``bench p2p``: measures Farwrite and the physical limit in turn, and makes the rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from farwrite.errors import Internal
from farwrite.info import copy_kernels
from farwrite.units import format_size
from farwrite_bench import _native
from farwrite_bench.pair import Pair, Phase, Setup
from farwrite_bench.plan import MIB, Case, Plan, cases

Row = dict[str, Any]
Progress = Callable[[float, str], None]
"""Called with the completed share, from 0 to 1, and the name of the next step."""


@dataclass
class Side:
    """The figures of all rounds, of Farwrite or of the limit."""

    samples_us: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    gb_s: list[float] = field(default_factory=list)
    gb_s_read: list[float] = field(default_factory=list)
    transfers_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)
    bad: int = 0
    copies: float = 0.0
    registrations: int = 0
    transfers: int = 0


class Measurement:
    """One case in one pair of processes."""

    def __init__(self, pair: Pair, case: Case) -> None:
        self.pair = pair
        self.case = case
        self.ours = Side()
        self.limit = Side()
        self.kernel = ""
        self.latency_kernel = ""
        self.first_us: float | None = None
        self._seed = 0

    def phase(self, kind: str, *, limit: bool = False, touch: bool = True, **more: Any) -> Phase:
        """Make a phase of this case, with a new seed."""
        self._seed += 1
        case = self.case
        return Phase(
            op=case.op,
            kind=kind,
            limit=limit,
            touch=touch,
            size=case.phase_size,
            lanes=1 if kind == "latency" else case.lanes,
            window=case.window,
            block=limit and case.block,
            kernel=(self.latency_kernel if kind == "latency" else self.kernel) if limit else "",
            seed=self._seed,
            **more,
        )

    def verify(self) -> None:
        """Check every stamp of every transfer; takes no time."""
        if self.case.op == "notify":
            return
        transfers = self.case.verify_transfers()
        ours, theirs = self.pair.run(self.phase("verify", transfers=transfers))
        self.ours.bad += ours.bad + int(theirs["bad"])
        self.ours.transfers += transfers

    def first_transfer(self) -> None:
        """Time the first transfer of this size."""
        one_way = self.case.latency_transfers()
        ours, theirs = self.pair.run(self.phase("latency", transfers=min(one_way, 4)))
        samples = ours.samples_us or theirs["samples_us"]
        self.first_us = samples[0]

    def choose_kernel(self) -> None:
        """Measure which copy kernel makes the raw loop fastest at this size, in either way."""
        if not self.case.best_kernel_limit:
            return
        case = self.case
        transfers = max(case.bandwidth_transfers() // 4 // case.lanes, 2) * case.lanes
        rates: dict[str, float] = {}
        times: dict[str, float] = {}
        for _ in range(2):
            for kernel in copy_kernels():
                if not kernel["supported"]:
                    continue
                self.kernel = self.latency_kernel = str(kernel["name"])
                self._latency(self.limit, limit=True)
                times[self.kernel] = min(self.limit.p50_us[-1], times.get(self.kernel, math.inf))
                rate = self._bandwidth(self.limit, transfers, limit=True, touch=True)[0]
                rates[self.kernel] = max(rate, rates.get(self.kernel, 0.0))
        self.kernel = max(rates, key=rates.__getitem__)
        self.latency_kernel = min(times, key=times.__getitem__)
        self.limit = Side(bad=self.limit.bad)

    def round(self, number: int) -> None:
        """Measure Farwrite and the limit once each; odd rounds start with the latter."""
        case = self.case
        order = (False, True) if number % 2 == 0 else (True, False)
        for limit in order:
            self._latency(self.limit if limit else self.ours, limit=limit)
        for touch in (False, True):
            for limit in order:
                side = self.limit if limit else self.ours
                rate, count, cpu = self._bandwidth(
                    side, case.bandwidth_transfers(), limit=limit, touch=touch
                )
                if touch:
                    side.gb_s_read.append(rate)
                    side.transfers_s.append(count)
                    side.cpu_s_per_gb.append(cpu)
                else:
                    side.gb_s.append(rate)

    def forget(self) -> None:
        """Drop the figures of the warm-up, but keep the count of wrong transfers."""
        self.ours = Side(bad=self.ours.bad, transfers=self.ours.transfers)
        self.limit = Side(bad=self.limit.bad)

    def _latency(self, side: Side, *, limit: bool) -> None:
        transfers = self.case.latency_transfers()
        ours, theirs = self.pair.run(self.phase("latency", limit=limit, transfers=transfers))
        samples = ours.samples_us or theirs["samples_us"]
        side.samples_us += samples
        side.p50_us.append(statistics.median(samples))
        side.bad += ours.bad + int(theirs["bad"])

    def _bandwidth(
        self, side: Side, transfers: int, *, limit: bool, touch: bool
    ) -> tuple[float, float, float]:
        """Return GB/s, transfers per second, and CPU seconds per GB of both processes together."""
        ours, theirs = self.pair.run(
            self.phase("bandwidth", limit=limit, touch=touch, transfers=transfers)
        )
        seconds = ours.seconds if self.case.op == "read" else float(theirs["seconds"])
        side.bad += ours.bad + int(theirs["bad"])
        if not limit:
            side.copies = (ours.copies + int(theirs["copies"])) / transfers
            side.registrations += ours.registrations + int(theirs["registrations"])
            side.transfers += transfers
        gigabytes = self.case.size * transfers / 1e9
        cpu = (ours.cpu_seconds + float(theirs["cpu_seconds"])) / gigabytes if gigabytes else 0.0
        return gigabytes / seconds, transfers / seconds, cpu


@dataclass
class Result:
    """What a run found, with the keys that docs/reference/benchmarks.md explains."""

    rows: list[Row] = field(default_factory=list)
    """One per operation and size."""
    first_use: list[dict[str, Any]] = field(default_factory=list)
    """One per operation: the costs of starting, in seconds."""


def run(plan: Plan, progress: Progress) -> Result:
    """Run the whole plan.

    Raises
    ------
    farwrite.Error
        If either process fails, or if the raw loop moved wrong bytes.
    """
    result = Result()
    steps = _Steps(plan, progress)
    for op in plan.ops:
        steps.next(f"{op}: start both processes")
        setup = Setup(op, plan.fabric, plan.lanes, plan.pool_bytes, plan.wait)
        with Pair(setup) as pair:
            result.first_use.append({"op": op, **_first_use(pair, plan)})
            for case in cases(plan, op):
                result.rows.append(_row(_measure(pair, case, plan, steps), plan))
    return result


def _measure(pair: Pair, case: Case, plan: Plan, steps: _Steps) -> Measurement:
    label = f"{case.op} {format_size(case.size)}" if case.size else case.op
    measurement = Measurement(pair, case)
    steps.next(f"{label}: verify")
    measurement.first_transfer()
    measurement.verify()
    measurement.choose_kernel()
    for number in range(plan.rounds + 1):
        steps.next(f"{label}: round {number}" if number else f"{label}: warm up")
        measurement.round(number)
        if number == 0:
            measurement.forget()
    return measurement


def _first_use(pair: Pair, plan: Plan) -> dict[str, Any]:
    """Collect the costs of starting, and pass over the pool once, so that later ones are steady."""
    op = pair.setup.op
    ours, theirs = pair.first_use
    facts = {
        "pool_bytes": plan.pool_bytes,
        "allocate_s": max(ours.allocate_seconds, float(theirs["allocate_seconds"])),
        "open_s": max(ours.open_seconds, float(theirs["open_seconds"])),
        "registrations": ours.registrations + int(theirs["registrations"]),
    }
    if op == "notify":
        return facts
    for limit in (True, False):
        phase = Phase(op, "bandwidth", limit, MIB, plan.pool_bytes // MIB, seed=4000 + limit)
        receiver, sender = pair.run(phase)
        seconds = receiver.seconds if op == "read" else float(sender["seconds"])
        facts["limit_first_pass_gb_s" if limit else "first_pass_gb_s"] = round(
            plan.pool_bytes / seconds / 1e9, 3
        )
    return facts


def _row(measurement: Measurement, plan: Plan) -> Row:
    case, ours, limit = measurement.case, measurement.ours, measurement.limit
    if limit.bad:
        raise Internal(f"bench p2p: the raw loop moved {limit.bad} wrong payloads; report this")
    by_bandwidth = case.large and case.op != "notify"
    pairs = zip(ours.gb_s_read, limit.gb_s_read, strict=True)
    if not by_bandwidth:
        pairs = zip(ours.p50_us, limit.p50_us, strict=True)
    ratios = [mine / best for mine, best in pairs]
    target = case.target()
    ratio = statistics.median(ratios)
    return {
        "fabric": plan.fabric,
        "op": case.op,
        "wait": plan.wait,
        "size": case.size,
        "lanes": case.lanes,
        "window": case.window,
        "p50_us": _digits(statistics.median(ours.samples_us)),
        "p99_us": _digits(_percentile(ours.samples_us, 0.99)),
        "gb_s": _digits(statistics.median(ours.gb_s)),
        "gb_s_read": _digits(statistics.median(ours.gb_s_read)),
        "copies": round(ours.copies, 3),
        "registrations": ours.registrations,
        "ratio_unread": _digits(
            statistics.median(
                mine / best if best else 0.0
                for mine, best in zip(ours.gb_s, limit.gb_s, strict=True)
            )
        ),
        "limit_gb_s": _digits(statistics.median(limit.gb_s)),
        "limit_gb_s_read": _digits(statistics.median(limit.gb_s_read)),
        "limit_p50_us": _digits(statistics.median(limit.samples_us)),
        "limit_p99_us": _digits(_percentile(limit.samples_us, 0.99)),
        "ratio": _digits(ratio),
        "ratio_of": "gb_s_read" if by_bandwidth else "p50_us",
        "ratio_spread": [_digits(min(ratios)), _digits(max(ratios))],
        "target": "".join(map(str, target)) if target else None,
        "target_met": _meets(ratio, target),
        "verified": ours.bad == 0,
        "verified_transfers": ours.transfers,
        "wrong_transfers": ours.bad,
        "gb_s_spread": _spread(ours.gb_s),
        "gb_s_read_spread": _spread(ours.gb_s_read),
        "p50_us_spread": _spread(ours.p50_us),
        "limit_gb_s_read_spread": _spread(limit.gb_s_read),
        "limit_p50_us_spread": _spread(limit.p50_us),
        "transfers_per_s": round(statistics.median(ours.transfers_s)),
        "limit_transfers_per_s": round(statistics.median(limit.transfers_s)),
        "cpu_s_per_gb": _digits(statistics.median(ours.cpu_s_per_gb)),
        "limit_cpu_s_per_gb": _digits(statistics.median(limit.cpu_s_per_gb)),
        "limit_kernel": _limit_kind(measurement),
        "limit_p50_kernel": measurement.latency_kernel or _limit_kind(measurement),
        "first_us": _digits(measurement.first_us or 0.0),
        "slots": case.slots,
        "rounds": plan.rounds,
    }


def _limit_kind(measurement: Measurement) -> str:
    if measurement.case.fabric == "tcp":
        return _native.SOCKET_TUNING
    return measurement.kernel or "memcpy"


class _Steps:
    """Counts completed steps for the progress bar."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._all = sum(1 + len(cases(plan, op)) * (plan.rounds + 2) for op in plan.ops)
        self._done = 0
        self._progress = progress

    def next(self, what: str) -> None:
        self._progress(self._done / self._all, what)
        self._done += 1


def _percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


def _digits(value: float) -> float:
    """Round to four significant digits, because no run repeats more of them."""
    return float(f"{value:.4g}")


def _spread(values: list[float]) -> list[float]:
    return [_digits(min(values)), _digits(max(values))]


def _meets(ratio: float, target: tuple[str, float] | None) -> bool | None:
    if target is None:
        return None
    sign, figure = target
    return ratio >= figure if sign == ">=" else ratio <= figure


def alias_sentence(rows: list[Row]) -> Iterator[str]:
    """Describe how the time of an alias depends on its size, if there are several sizes."""
    aliases = [row for row in rows if row["op"] == "alias"]
    if len(aliases) > 1:
        times = ", ".join(
            f"{row['p50_us']:.3g} us at {format_size(row['size'])}" for row in aliases
        )
        copies = sum(row["copies"] for row in aliases)
        growth = aliases[-1]["p50_us"] / aliases[0]["p50_us"]
        yield (
            f"alias: {times}; the last size takes {growth:.2g} times as long as the first;"
            f" {copies:g} copies"
        )
