"""Makes rows of the result: rates beside the driver's, and the time to hand an array over."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from farwrite.units import format_size
from farwrite_bench.gpu.run import LIMIT, Result
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.table import times

Row = dict[str, Any]
HEADERS = ("size", "operation", "way", "GB/s", "of the driver's copy", "spread", "target", "pins")
TARGETS = {
    "write": (0.9, 64 << 20),
    "write to host": (0.85, 16 << 20),
    "read from host": (0.85, 16 << 20),
}
"""By way: the share of the driver's copy, and the size from which on it is asked."""


def make_rows(result: Result) -> list[Row]:
    """One row for each size and way."""
    rows = []
    for size, turns in result.turns.items():
        for key, figures in turns.items():
            operation = result.operations[key]
            limit = LIMIT[operation]
            of_limit = None if key == limit else ratio_of_rounds(figures.gb_s, turns[limit].gb_s)
            share, least = TARGETS.get(key, (None, 0))
            asked = share if size >= least else None
            rows.append(
                {
                    "size": size,
                    "operation": operation,
                    "way": key,
                    "gb_s": statistics.median(figures.gb_s),
                    "gb_s_rounds": figures.gb_s,
                    "of_limit": of_limit,
                    "target": asked,
                    "target_met": None
                    if asked is None or of_limit is None
                    else of_limit["median"] >= asked,
                    "pins": figures.pins,
                    "mappings": figures.mappings,
                }
            )
    return rows


def cells(row: Row) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    of_limit = row["of_limit"]
    mark = {True: " ok", False: " MISSED", None: ""}[row["target_met"]]
    return (
        format_size(row["size"]),
        row["operation"],
        row["way"],
        f"{row['gb_s']:.4g}",
        "-" if of_limit is None else times(of_limit["median"]),
        "-" if of_limit is None else f"{times(of_limit['low'])} to {times(of_limit['high'])}",
        "-" if row["target"] is None else f">={row['target']}{mark}",
        str(row["pins"]),
    )


def hand_over_rows(result: Result) -> list[Row]:
    """One row for each way to hand an array over without a copy."""
    return [
        {"way": key, "p50_us": statistics.median(figures), "times": len(figures)}
        for key, figures in result.hand_over_us.items()
    ]


def sentences(result: Result) -> Iterator[str]:
    """Say what handing over took, and what is missing."""
    for row in hand_over_rows(result):
        what = (
            "publish, lookup and alias"
            if row["way"] == "alias"
            else "a queue of torch.multiprocessing"
        )
        yield (
            f"Handing an array over without a copy took {row['p50_us']:.4g} us by {what} (median of"
            f" {row['times']})."
        )
    for key, reason in result.missing.items():
        yield f"{key}: not measured, {reason}."
