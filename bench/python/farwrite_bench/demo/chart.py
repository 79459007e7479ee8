"""The demo's result as a picture: an SVG that needs no other file and reads in the dark."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from farwrite.units import format_size
from farwrite_bench.demo.race import Result

WIDTH = 760
LEFT = 170
RIGHT = 130
TOP = 84
ROW = 44
BAR = 22

STYLE = """
  text { font: 14px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
  .title { font-size: 17px; font-weight: 600; }
  .quiet { fill: #59636e; font-size: 12.5px; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .move { fill: #8c959f; } .read { fill: #d1d9e0; }
  .ours .move { fill: #0969da; } .ours .read { fill: #a5d1ff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .quiet { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .move { fill: #7d8590; } .read { fill: #3d444d; }
    .ours .move { fill: #2f81f7; } .ours .read { fill: #1c4a8a; }
  }"""


def draw(results: Sequence[Result], size: int) -> str:
    """Draw one bar a way: the time until the array was there, then until it had been read.

    Returns
    -------
    str
        The text of an SVG file.
    """
    height = TOP + ROW * len(results) + 18
    longest = max(result.seconds_read for result in results)
    scale = (WIDTH - LEFT - RIGHT) / longest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(_summary(results, size))}</title>",
        f"<style>{STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'<text class="title" x="20" y="32">A NumPy array of {format_size(size)}, from one process'
        " to another</text>",
        '<text class="quiet" x="20" y="54">Seconds until the receiver had it (strong), and had'
        " read all of it (pale). Less is better.</text>",
    ]
    for row, result in enumerate(results):
        lines += _bar(result, TOP + ROW * row, scale)
    return "\n".join([*lines, "</svg>", ""])


def _bar(result: Result, y: int, scale: float) -> list[str]:
    moved = max(result.seconds * scale, 1.5)
    read = max((result.seconds_read - result.seconds) * scale, 0)
    kind = ' class="ours"' if result.way.name.startswith("Farwrite") else ""
    middle = y + BAR / 2 + 5
    return [
        f"<g{kind}>",
        f'<text x="{LEFT - 12}" y="{middle}" text-anchor="end">{escape(result.way.name)}</text>',
        f'<rect class="move" x="{LEFT}" y="{y}" width="{moved:.1f}" height="{BAR}" rx="2"/>',
        f'<rect class="read" x="{LEFT + moved:.1f}" y="{y}" width="{read:.1f}" height="{BAR}"'
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
    """Write a time as people read it: "3.21 s", "94 ms" or "120 µs"."""
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.0f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"
