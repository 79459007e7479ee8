"""Shows the rows as a table, and where a peer is ahead in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.units import format_size
from farwrite_bench.peers.rows import Row
from farwrite_bench.table import times

HEADERS = (
    "size",
    "peer",
    "from",
    "p50 us",
    "p99 us",
    "GB/s read",
    "cpu s/GB",
    "copies",
    "of the limit",
    "Farwrite is",
    "spread",
    "target",
)


WIDEST = 60
"""The most letters of a reason in the table; the sentences below have all of it."""


def cells(row: Row) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    if row["p50_us"] is None:
        what = f"missing: {row['install']}" if row["missing"] else f"failed: {row['error']}"
        size = "-" if row["size"] is None else format_size(row["size"])
        named = (size, row["name"], row["language"])
        return (*named, *["-"] * (len(HEADERS) - len(named) - 1), _short(what))
    of_limit, gain = row["ratio_to_limit"], row["of_farwrite"]
    return (
        format_size(row["size"]),
        row["name"] if row["variant"] is None else f"{row['name']} {row['variant']}",
        row["language"],
        f"{row['p50_us']:.4g}",
        f"{row['p99_us']:.4g}",
        f"{row['gb_s']:.3g}",
        f"{row['cpu_s_per_gb']:.3g}",
        "-" if row["copies"] is None else f"{row['copies']:g}",
        "-" if of_limit is None else f"{of_limit['median']:.2f}",
        "-" if gain is None else f"{times(gain['median'])} better",
        "-" if gain is None else f"{times(gain['low'])} to {times(gain['high'])}",
        _target(row),
    )


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Put the rows of a size together, the fastest first; those without figures come last."""
    measured = [row for row in rows if row["p50_us"] is not None]
    others = [row for row in rows if row["p50_us"] is None]

    def place(row: Row) -> tuple[int, float]:
        by_rate = row["ratio_of"] == "gb_s"
        return row["size"], -row["gb_s"] if by_rate else row["p50_us"]

    return sorted(measured, key=place) + others


def sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Name the cases in which a peer is ahead, and the peers that failed or are missing."""
    measured = [row for row in rows if row["of_farwrite"] is not None]
    for key in dict.fromkeys(row["peer"] for row in measured):
        ahead = [row for row in measured if row["peer"] == key and row["of_farwrite"]["median"] < 1]
        if ahead:
            cases = ", ".join(
                f"{1 / row['of_farwrite']['median']:.2f}x at {format_size(row['size'])}"
                for row in ahead
            )
            why = f": {ahead[0]['why']}" if ahead[0]["why"] else ""
            yield f"{ahead[0]['name']} is ahead of Farwrite, {cases}{why}."
    if measured and not any(row["of_farwrite"]["median"] < 1 for row in measured):
        yield "No peer is ahead of Farwrite at any of these sizes."
    for row in rows:
        if row["error"] is not None:
            yield f"{row['name']} failed: {row['error']}"
        if row["missing"] is not None:
            yield f"{row['name']} is missing ({row['missing']}). Install it: {row['install']}"


def settings(rows: Sequence[Row]) -> Iterator[str]:
    """Say which versions and settings the peers had."""
    for name, used in dict.fromkeys(
        (row["name"], row["settings"]) for row in rows if row["settings"]
    ):
        yield f"{name}: {used}"


def _target(row: Row) -> str:
    if row["target"] is None:
        return "-"
    return f">={row['target']:.2f}x {'ok' if row['target_met'] else 'MISSED'}"


def _short(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."
