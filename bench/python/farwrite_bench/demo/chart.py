"""Draws a demo's result as an SVG file that needs no other file and has a dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from farwrite.units import format_size
from farwrite_bench.demo.race import Result
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import standalone


@dataclass(frozen=True)
class Bars:
    """One row of a chart: a strong bar, and behind it a pale one."""

    name: str
    ours: bool
    seconds: float
    """Where the strong bar ends."""
    seconds_all: float
    """Where the pale bar ends."""


def draw(results: Sequence[Result], size: int) -> str:
    """Draw one bar for each way: the time until the array arrived, then until it was read.

    Returns
    -------
    str
        The text of an SVG file.
    """
    return draw_bars(
        f"A NumPy array of {format_size(size)}, from one process to another",
        "Strong: until the receiver has it. Pale: until it has read all of it. Less is better.",
        [
            Bars(
                result.way.name,
                result.way.name.startswith("Farwrite"),
                result.seconds,
                result.seconds_read,
            )
            for result in results
        ],
    )


def draw_bars(title: str, note: str, rows: Sequence[Bars]) -> str:
    """Draw a chart of rows, as the text of an SVG file."""
    drawn = [
        Bar(
            "farwrite" if row.ours else "grpc",
            "",
            row.seconds,
            f"{seconds(row.seconds)} / {seconds(row.seconds_all)}",
            beyond=row.seconds_all,
        )
        for row in rows
    ]
    groups = [Group(row.name, [bar]) for row, bar in zip(rows, drawn, strict=True)]
    return standalone(bars(title, groups, note))


def seconds(value: float) -> str:
    """Format a time such as "3.21 s", "94 ms" or "120 µs"."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.0f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
