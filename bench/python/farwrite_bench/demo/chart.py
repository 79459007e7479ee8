"""Draws a demo's result as an SVG file that needs no other file and has a dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from farwrite.units import format_size
from farwrite_bench.demo.race import Result
from farwrite_bench.report.chart import standalone

WIDTH = 640
LEFT = 156
RIGHT = 126
TOP = 84
ROW = 44
BAR = 22


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
    times = "; ".join(
        f"{result.way.name} {seconds(result.seconds)}, read after {seconds(result.seconds_read)}"
        for result in results
    )
    return draw_bars(
        f"A NumPy array of {format_size(size)}, from one process to another",
        "Time until the receiver has it (strong) and has read all of it (pale). Less is better.",
        f"{format_size(size)} between two processes: {times}",
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


def draw_bars(title: str, legend: str, summary: str, rows: Sequence[Bars]) -> str:
    """Draw a chart of rows; `summary` says it in words, for readers who do not see it.

    Returns
    -------
    str
        The text of an SVG file.
    """
    height = TOP + ROW * len(rows) + 18
    scale = (WIDTH - LEFT - RIGHT) / max(row.seconds_all for row in rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(summary)}</title>",
        f'<text class="title" x="20" y="32">{escape(title)}</text>',
        f'<text class="quiet" x="20" y="54">{escape(legend)}</text>',
    ]
    for number, row in enumerate(rows):
        lines += _bar(row, TOP + ROW * number, scale)
    return standalone("\n".join([*lines, "</svg>"]))


def _bar(row: Bars, y: int, scale: float) -> list[str]:
    moved = max(row.seconds * scale, 1.5)
    rest = max((row.seconds_all - row.seconds) * scale, 0)
    kind = "farwrite" if row.ours else "grpc"
    middle = y + BAR / 2 + 5
    return [
        f'<g class="{kind}">',
        f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end">{escape(row.name)}</text>',
        f'<rect class="solid" x="{LEFT}" y="{y}" width="{moved:.1f}" height="{BAR}" rx="2"/>',
        f'<rect class="pale" x="{LEFT + moved:.1f}" y="{y}" width="{rest:.1f}" height="{BAR}"'
        ' rx="2"/>',
        f'<text x="{LEFT + moved + rest + 8:.1f}" y="{middle}">{seconds(row.seconds)}'
        f' <tspan class="quiet">/ {seconds(row.seconds_all)}</tspan></text>',
        "</g>",
    ]


def seconds(value: float) -> str:
    """Format a time such as "3.21 s", "94 ms" or "120 µs"."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.0f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
