"""``bench p2p``: measures Farwrite and the physical limit in turn, and makes the rows."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite.info import copy_kernels
from farwrite.units import format_size
from farwrite_bench import _native
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.p2p.pair import Pair, Phase, Setup
from farwrite_bench.p2p.plan import Case, Plan, cases
from farwrite_bench.ratio import digits, percentile
from farwrite_bench.report.parts import Facts, Row
from farwrite_bench.sizes import MIB


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

    def figures(self) -> Row:
        """Return the medians over the rounds, with their lowest and highest value."""
        return {
            "p50_us": digits(statistics.median(self.samples_us)),
            "p99_us": digits(percentile(self.samples_us, 0.99)),
            "gb_s": digits(statistics.median(self.gb_s)),
            "gb_s_read": digits(statistics.median(self.gb_s_read)),
            "p50_us_spread": _spread(self.p50_us),
            "gb_s_spread": _spread(self.gb_s),
            "gb_s_read_spread": _spread(self.gb_s_read),
            "transfers_per_s": round(statistics.median(self.transfers_s)),
            "cpu_s_per_gb": digits(statistics.median(self.cpu_s_per_gb)),
        }


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
        single = kind == "latency"
        return {
            "op": case.op,
            "kind": kind,
            "limit": limit,
            "touch": touch,
            "size": case.phase_size,
            "lanes": 1 if single else case.lanes,
            "window": case.window,
            "block": limit and case.block,
            "kernel": (self.latency_kernel if single else self.kernel) if limit else "",
            "seed": self._seed,
            **more,
        }

    def verify(self) -> None:
        """Check every stamp of every transfer; takes no time."""
        if self.case.op == "notify":
            return
        transfers = self.case.verify_transfers()
        ours, theirs = self.pair.run(self.phase("verify", transfers=transfers))
        self.ours.bad += ours.bad + theirs.bad
        self.ours.transfers += transfers

    def first_transfer(self) -> None:
        """Time the first transfer of this size."""
        one_way = self.case.latency_transfers()
        ours, theirs = self.pair.run(self.phase("latency", transfers=min(one_way, 4)))
        samples = ours.samples_us or theirs.samples_us
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
        samples = ours.samples_us or theirs.samples_us
        side.samples_us += samples
        side.p50_us.append(statistics.median(samples))
        side.bad += ours.bad + theirs.bad

    def _bandwidth(
        self, side: Side, transfers: int, *, limit: bool, touch: bool
    ) -> tuple[float, float, float]:
        """Return GB/s, transfers per second, and CPU seconds per GB of both processes together."""
        ours, theirs = self.pair.run(
            self.phase("bandwidth", limit=limit, touch=touch, transfers=transfers)
        )
        seconds = ours.seconds if self.case.op == "read" else theirs.seconds
        side.bad += ours.bad + theirs.bad
        if not limit:
            side.copies = (ours.copies + theirs.copies) / transfers
            side.registrations += ours.registrations + theirs.registrations
            side.transfers += transfers
        gigabytes = self.case.size * transfers / 1e9
        cpu = (ours.cpu_seconds + theirs.cpu_seconds) / gigabytes if gigabytes else 0.0
        return gigabytes / seconds, transfers / seconds, cpu


def run(plan: Plan, progress: Progress, logs: Path) -> Facts:
    """Run the whole plan; the output of the senders goes to `logs`.

    Returns
    -------
    dict
        ``rows``, one for each operation and size, and ``first_use``, the costs of starting of each
        operation, in seconds. docs/reference/benchmarks.md explains their keys.

    A case fails if either process fails, or if the raw loop moved wrong bytes. The others go on in
    new processes.
    """
    rows: list[Row] = []
    first_use: dict[str, Row] = {}
    steps = _Steps(plan, progress)
    for op in plan.ops:
        setup = Setup(op, plan.fabric, plan.lanes, plan.pool_bytes, plan.wait)
        left = deque(cases(plan, op))
        while left:
            steps.next(f"{op}: start both processes")
            failed: dict[str, str] = {}
            with noting(failed, op), Pair(setup, logs / f"{op}.log") as pair:
                started = _first_use(pair, plan)
                first_use.setdefault(op, {"op": op, **started})
                while left:
                    rows.append(make_row(_measure(pair, left[0], plan, steps), plan))
                    left.popleft()
            if failed and not left:
                rows.append(
                    {"op": f"{op}, end of the processes", "size": None, "error": failed[op]}
                )
            elif failed:
                # Where not even the first use went well, no case of the operation will.
                lost = min(len(left), 1) if op in first_use else len(left)
                rows += (_failed_row(left.popleft(), plan, failed[op]) for _ in range(lost))
    return {"first_use": [*first_use.values()], "rows": rows}


def _failed_row(case: Case, plan: Plan, error: str) -> Row:
    known = {"fabric": plan.fabric, "op": case.op, "wait": plan.wait, "size": case.size}
    return {**known, "lanes": case.lanes, "window": case.window, "error": error}


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
    ours, theirs = pair.costs
    facts = {
        "pool_bytes": plan.pool_bytes,
        "allocate_s": max(ours.allocate_seconds, theirs.allocate_seconds),
        "open_s": max(ours.open_seconds, theirs.open_seconds),
        "registrations": ours.registrations + theirs.registrations,
    }
    if op == "notify":
        return facts
    for limit in (True, False):
        phase = {"op": op, "kind": "bandwidth", "limit": limit, "size": MIB, "seed": 4000 + limit}
        receiver, sender = pair.run({**phase, "transfers": plan.pool_bytes // MIB})
        seconds = receiver.seconds if op == "read" else sender.seconds
        facts["limit_first_pass_gb_s" if limit else "first_pass_gb_s"] = round(
            plan.pool_bytes / seconds / 1e9, 3
        )
    return facts


def make_row(measurement: Measurement, plan: Plan) -> Row:
    """Make the row of a case."""
    case, ours, limit = measurement.case, measurement.ours, measurement.limit
    if limit.bad:
        raise Internal(f"bench p2p: the raw loop moved {limit.bad} wrong payloads; report this")
    ratio_of = "gb_s_read" if case.large and case.op != "notify" else "p50_us"
    ratios = _ratios(getattr(ours, ratio_of), getattr(limit, ratio_of))
    target = case.target()
    ratio = statistics.median(ratios)
    kernel = _native.SOCKET_TUNING if case.fabric == "tcp" else measurement.kernel or "memcpy"
    return {
        "fabric": plan.fabric,
        "op": case.op,
        "wait": plan.wait,
        "size": case.size,
        "lanes": case.lanes,
        "window": case.window,
        **ours.figures(),
        **{f"limit_{name}": value for name, value in limit.figures().items()},
        "copies": round(ours.copies, 3),
        "registrations": ours.registrations,
        "ratio": digits(ratio),
        "ratio_of": ratio_of,
        "ratio_spread": _spread(ratios),
        "ratio_unread": digits(statistics.median(_ratios(ours.gb_s, limit.gb_s))),
        "target": "".join(map(str, target)) if target else None,
        "target_met": _meets(ratio, target),
        "verified": ours.bad == 0,
        "verified_transfers": ours.transfers,
        "wrong_transfers": ours.bad,
        "limit_kernel": kernel,
        "limit_p50_kernel": measurement.latency_kernel or kernel,
        "first_us": digits(measurement.first_us or 0.0),
        "slots": case.slots,
        "rounds": plan.rounds,
    }


def _ratios(ours: Sequence[float], limit: Sequence[float]) -> list[float]:
    """Divide round by round; a notification moves no bytes and therefore has no rate."""
    return [mine / best if best else 0.0 for mine, best in zip(ours, limit, strict=True)]


class _Steps:
    """Counts completed steps for the progress bar."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._all = sum(1 + len(cases(plan, op)) * (plan.rounds + 2) for op in plan.ops)
        self._done = 0
        self._progress = progress

    def next(self, what: str) -> None:
        self._progress(self._done / self._all, what)
        self._done += 1


def _spread(values: Sequence[float]) -> list[float]:
    return [digits(min(values)), digits(max(values))]


def _meets(ratio: float, target: tuple[str, float] | None) -> bool | None:
    if target is None:
        return None
    sign, figure = target
    return ratio >= figure if sign == ">=" else ratio <= figure
