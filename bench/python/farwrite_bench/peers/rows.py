"""Makes the rows: each peer beside the limit, and Farwrite beside each peer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from farwrite_bench._native import ONE_WAY_BYTES
from farwrite_bench.peers.peer import FARWRITE, LIMIT, Peer
from farwrite_bench.peers.plan import AHEAD_FROM, SMALL_LIMIT, Plan
from farwrite_bench.peers.run import Result, Turns
from farwrite_bench.ratio import ratio_of_rounds

Row = dict[str, Any]
UCX = "ucx"


def make_rows(plan: Plan, result: Result) -> list[Row]:
    """Make one row for each size and peer, and one for each that is missing or failed."""
    rows = [
        _row(peer, size, turns, result)
        for size, turns in result.turns.items()
        for peer in plan.peers
        if peer.key in turns and turns[peer.key].gb_s and not _failed_at(peer, size, result)
    ]
    for peer in plan.peers:
        failed = result.failed.get(peer.key)
        if failed is not None:
            rows.append(_without_figures(peer, size=failed.size, error=failed.why))
        if peer.key in result.missing:
            missing = result.missing[peer.key]
            rows.append(_without_figures(peer, missing=missing, install=peer.install))
    return rows


def _failed_at(peer: Peer, size: int, result: Result) -> bool:
    failed = result.failed.get(peer.key)
    return failed is not None and failed.size == size


FIGURES = (
    "variant",
    "p50_us",
    "p99_us",
    "gb_s",
    "cpu_s_per_gb",
    "copies",
    "ratio_of",
    "ratio_to_limit",
    "of_farwrite",
    "why",
    "target",
    "target_met",
    "p50_us_rounds",
    "gb_s_rounds",
    "rounds",
    "settings",
)


def _without_figures(
    peer: Peer,
    *,
    size: int | None = None,
    error: str | None = None,
    missing: str | None = None,
    install: str | None = None,
) -> Row:
    return {
        **_named(peer),
        "size": size,
        **dict.fromkeys(FIGURES),
        "error": error,
        "missing": missing,
        "install": install,
    }


def _named(peer: Peer) -> Row:
    return {"peer": peer.key, "name": peer.name, "language": peer.language}


def _row(peer: Peer, size: int, turns: dict[str, Turns], result: Result) -> Row:
    mine = turns[peer.key]
    ours = turns.get(FARWRITE[peer.language])
    limit = turns.get(LIMIT)
    by_rate = size >= ONE_WAY_BYTES
    compared = peer.key not in (LIMIT, *FARWRITE.values())
    of_farwrite = _share(ours, mine, by_rate) if compared else None
    least = least_gain(peer.key, size) if compared else None
    copies = mine.copies
    return {
        **_named(peer),
        "size": size,
        "variant": mine.variant,
        "p50_us": _digits(statistics.median(mine.samples_us)),
        "p99_us": _digits(_percentile(mine.samples_us, 0.99)),
        "gb_s": _digits(statistics.median(mine.gb_s)),
        "cpu_s_per_gb": _digits(statistics.median(mine.cpu_s_per_gb)),
        "copies": peer.copies(size) if copies is None else round(copies, 3),
        "ratio_of": "gb_s" if by_rate else "p50_us",
        "ratio_to_limit": _share(mine, limit, by_rate) if peer.key != LIMIT else None,
        "of_farwrite": of_farwrite,
        "why": peer.ahead if of_farwrite is not None and of_farwrite["median"] < 1 else None,
        "target": None if least is None else round(least, 3),
        "target_met": None
        if least is None or of_farwrite is None
        else bool(of_farwrite["median"] >= round(least, 3)),
        "p50_us_rounds": [_digits(each) for each in mine.p50_us],
        "gb_s_rounds": [_digits(each) for each in mine.gb_s],
        "rounds": len(mine.gb_s),
        "settings": result.settings[peer.key],
        "error": None,
        "missing": None,
        "install": None,
    }


def least_gain(key: str, size: int) -> float | None:
    """Return how many times better than a peer Farwrite is to be at a size; None for any."""
    if size >= AHEAD_FROM:
        return 1.0
    return 1 / SMALL_LIMIT if key == UCX else None


def _share(mine: Turns | None, other: Turns | None, by_rate: bool) -> dict[str, float] | None:
    """Return how many times better `mine` is, round by round: its rate, or the inverse of time."""
    if mine is None or other is None or len(mine.gb_s) != len(other.gb_s):
        return None
    if by_rate:
        return ratio_of_rounds(mine.gb_s, other.gb_s)
    return ratio_of_rounds(other.p50_us, mine.p50_us)


def _percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")
