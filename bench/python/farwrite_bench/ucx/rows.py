"""UCX's side of one size of ``bench p2p --against ucx``, its row and its table."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.plan import KIB, RIVAL_WAYS, Case
from farwrite_bench.ucx.program import UcxProgram

NOTIFYING = ("tag", "putflag")
"""The ways after which the receiver knows of the bytes: Farwrite is compared with the better."""

HEADERS = (
    "write",
    "p50 us",
    "UCX tag",
    "put+flag",
    "put alone",
    "GB/s read",
    "UCX tag",
    "put+flag",
    "put alone, unread",
    "ratio",
    "target",
)


@dataclass
class WayFigures:
    """The figures of all rounds of one way."""

    samples_us: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    gb_s: list[float] = field(default_factory=list)


class Rival:
    """UCX in the rounds of one case."""

    def __init__(self, program: UcxProgram, case: Case) -> None:
        self._program = program
        self._case = case
        self._seed = 0
        self.bad = 0
        self.ways = {way: WayFigures() for way in RIVAL_WAYS}

    def round(self) -> None:
        """Measure every way once. A put alone is not read: nobody knows when it is there."""
        case = self._case
        for way, figures in self.ways.items():
            self._seed += 1
            found = self._program.run(
                way, "latency", case.size, case.latency_transfers(), seed=self._seed
            )
            self.bad += found.bad
            figures.samples_us += found.samples_us
            figures.p50_us.append(statistics.median(found.samples_us))
            transfers = case.bandwidth_transfers()
            found = self._program.run(
                way, "bandwidth", case.size, transfers, window=case.window, seed=self._seed
            )
            self.bad += found.bad
            figures.gb_s.append(case.size * transfers / 1e9 / found.seconds)

    def forget(self) -> None:
        """Drop the figures of the warm-up, but keep the count of wrong transfers."""
        self.ways = {way: WayFigures() for way in RIVAL_WAYS}


def target(case: Case) -> tuple[str, float]:
    """Return the target of the ratio as (">=" or "<=", figure)."""
    if case.large:
        return (">=", 1.0)
    return ("<=", 1.3 if case.size < 64 * KIB else 1.0)


def row(
    case: Case, p50_us: Sequence[float], gb_s_read: Sequence[float], rival: Rival
) -> dict[str, Any]:
    """Make the row of one size from Farwrite's and UCX's figures of the same rounds."""
    if rival.bad:
        raise Internal(f"bench p2p: UCX moved {rival.bad} wrong payloads; report this")
    ways = rival.ways
    ours = gb_s_read if case.large else p50_us
    theirs = {way: ways[way].gb_s if case.large else ways[way].p50_us for way in NOTIFYING}
    middles = {way: statistics.median(values) for way, values in theirs.items()}
    better = (max if case.large else min)(middles, key=middles.__getitem__)
    ratios = [mine / best for mine, best in zip(ours, theirs[better], strict=True)]
    ratio = statistics.median(ratios)
    sign, figure = target(case)
    found: dict[str, Any] = {
        "op": case.op,
        "size": case.size,
        "p50_us": _digits(statistics.median(p50_us)),
        "gb_s_read": _digits(statistics.median(gb_s_read)),
    }
    for way, figures in ways.items():
        name = way.replace("putflag", "put_flag")
        found[f"{name}_p50_us"] = _digits(statistics.median(figures.samples_us))
        found[f"{name}_p99_us"] = _digits(_p99(figures.samples_us))
        found[f"{name}_gb_s{'' if way == 'put' else '_read'}"] = _digits(
            statistics.median(figures.gb_s)
        )
    found |= {
        "better": better.replace("putflag", "put_flag"),
        "ratio": _digits(ratio),
        "ratio_of": "gb_s_read" if case.large else "p50_us",
        "ratio_spread": [_digits(min(ratios)), _digits(max(ratios))],
        "target": f"{sign}{figure}",
        "target_met": ratio >= figure if sign == ">=" else ratio <= figure,
        "rounds": len(ratios),
    }
    return found


def cells(found: dict[str, Any]) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    what = "GB/s read" if found["ratio_of"] == "gb_s_read" else "p50"
    return (
        format_size(found["size"]),
        *(f"{found[f'{way}p50_us']:.4g}" for way in ("", "tag_", "put_flag_", "put_")),
        *(f"{found[f'{way}gb_s_read']:.2f}" for way in ("", "tag_", "put_flag_")),
        f"{found['put_gb_s']:.2f}",
        f"{found['ratio']:.2f} of {what}",
        f"{found['target']} {'ok' if found['target_met'] else 'MISSED'}",
    )


def _p99(samples: list[float]) -> float:
    ordered = sorted(samples)
    return ordered[min(math.ceil(0.99 * len(ordered)), len(ordered)) - 1]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
