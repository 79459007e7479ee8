"""Makes the rows: each peer beside the limit, and Farwrite beside each peer."""

from __future__ import annotations

import statistics

from farwrite_bench._native import ONE_WAY_BYTES
from farwrite_bench.peers.peer import FARWRITE, LIMIT, Peer
from farwrite_bench.peers.plan import AHEAD_FROM, SMALL_LIMIT, Plan
from farwrite_bench.peers.run import Result, Turns
from farwrite_bench.ratio import digits, percentile, ratio_of_rounds
from farwrite_bench.report.parts import Row

UCX = "ucx"


def make_rows(plan: Plan, result: Result) -> list[Row]:
    """Make one row for each size and peer, and one for each that is missing or failed.

    All have the same keys: a figure that is missing is null.
    """
    rows = [
        _row(peer, size, turns, result)
        for size, turns in result.turns.items()
        for peer in plan.peers
        if peer.key in turns and turns[peer.key].gb_s and not _failed_at(peer, size, result)
    ]
    for peer in plan.peers:
        failed = result.failed.get(peer.key)
        if failed is not None:
            rows.append({**_nothing(peer), "size": failed.size, "error": failed.why})
        if peer.key in result.missing:
            missing = result.missing[peer.key]
            rows.append({**_nothing(peer), "missing": missing, "install": peer.install})
    return rows


def _failed_at(peer: Peer, size: int, result: Result) -> bool:
    failed = result.failed.get(peer.key)
    return failed is not None and failed.size == size


def _nothing(peer: Peer) -> Row:
    figures = (
        *("size", "variant", "p50_us", "p99_us", "gb_s", "cpu_s_per_gb", "copies", "ratio_of"),
        *("ratio_to_limit", "of_farwrite", "why", "target", "target_met", "p50_us_rounds"),
        *("gb_s_rounds", "rounds", "settings", "error", "missing", "install"),
    )
    named = {"peer": peer.key, "name": peer.name, "language": peer.language}
    return {**named, **dict.fromkeys(figures)}


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
        **_nothing(peer),
        "size": size,
        "variant": mine.variant,
        "p50_us": digits(statistics.median(mine.samples_us)),
        "p99_us": digits(percentile(mine.samples_us, 0.99)),
        "gb_s": digits(statistics.median(mine.gb_s)),
        "cpu_s_per_gb": digits(statistics.median(mine.cpu_s_per_gb)),
        "copies": peer.copies(size) if copies is None else round(copies, 3),
        "ratio_of": "gb_s" if by_rate else "p50_us",
        "ratio_to_limit": _share(mine, limit, by_rate) if peer.key != LIMIT else None,
        "of_farwrite": of_farwrite,
        "why": peer.ahead if of_farwrite is not None and of_farwrite["median"] < 1 else None,
        "target": None if least is None else round(least, 3),
        "target_met": None
        if least is None or of_farwrite is None
        else bool(of_farwrite["median"] >= round(least, 3)),
        "p50_us_rounds": [digits(each) for each in mine.p50_us],
        "gb_s_rounds": [digits(each) for each in mine.gb_s],
        "rounds": len(mine.gb_s),
        "settings": result.settings[peer.key],
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
