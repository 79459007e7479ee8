"""Draws the demo's result as an SVG file that needs no other file and has a dark mode."""

from __future__ import annotations

from collections.abc import Sequence
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


def draw(results: Sequence[Result], size: int) -> str:
    """Draw one bar for each way: the time until the array arrived, then until it was read.

    Returns
    -------
    str
        The text of an SVG file.
    """
    height = TOP + ROW * len(results) + 18
    longest = max(result.seconds_read for result in results)
    scale = (WIDTH - LEFT - RIGHT) / longest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(_summary(results, size))}</title>",
        f'<text class="title" x="20" y="32">A NumPy array of {format_size(size)}, from one process'
        " to another</text>",
        '<text class="quiet" x="20" y="54">Time until the receiver has it (strong) and has read all'
        " of it (pale). Less is better.</text>",
    ]
    for row, result in enumerate(results):
        lines += _bar(result, TOP + ROW * row, scale)
    return standalone("\n".join([*lines, "</svg>"]))


def _bar(result: Result, y: int, scale: float) -> list[str]:
    moved = max(result.seconds * scale, 1.5)
    read = max((result.seconds_read - result.seconds) * scale, 0)
    kind = "farwrite" if result.way.name.startswith("Farwrite") else "grpc"
    middle = y + BAR / 2 + 5
    return [
        f'<g class="{kind}">',
        f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end">{escape(result.way.name)}</text>',
        f'<rect class="solid" x="{LEFT}" y="{y}" width="{moved:.1f}" height="{BAR}" rx="2"/>',
        f'<rect class="pale" x="{LEFT + moved:.1f}" y="{y}" width="{read:.1f}" height="{BAR}"'
        ' rx="2"/>',
        f'<text x="{LEFT + moved + read + 8:.1f}" y="{middle}">{seconds(result.seconds)}'
        f' <tspan class="quiet">/ {seconds(result.seconds_read)}</tspan></text>',
        "</g>",
    ]


def _summary(results: Sequence[Result], size: int) -> str:
    times = "; ".join(
        f"{result.way.name} {seconds(result.seconds)}, read after {seconds(result.seconds_read)}"
        for result in results
    )
    return f"{format_size(size)} between two processes: {times}"


def seconds(value: float) -> str:
    """Format a time such as "3.21 s", "94 ms" or "120 µs"."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.0f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
