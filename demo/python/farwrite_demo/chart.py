"""Draws bars as an SVG file that needs no other file and has a dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from farwrite.run.html_page import COLOURS

WIDTH, LEFT, RIGHT, TOP, ROW, BAR = 640, 156, 126, 84, 44, 22
STYLE = f"""{COLOURS}
  svg.chart {{ --ours: #0969da; --other: #7a828b; }}
  @media (prefers-color-scheme: dark) {{ svg.chart {{ --ours: #4493f8; --other: #9aa4af; }} }}
  svg.chart text {{ font: 13px system-ui, -apple-system, "Segoe UI", sans-serif;
    fill: var(--ink); }}
  svg.chart .title {{ font-size: 15px; font-weight: 600; }}
  svg.chart .quiet {{ fill: var(--quiet); font-size: 12px; }}
  svg.chart .page {{ fill: var(--page); }}
  svg.chart .ours {{ fill: var(--ours); }}
  svg.chart .other {{ fill: var(--other); }}
  svg.chart .pale {{ opacity: 0.4; }}
"""


@dataclass(frozen=True)
class Row:
    """One row of a chart: a strong bar, and behind it a pale one."""

    name: str
    ours: bool
    """Whether it is drawn in Farwrite's colour."""
    strong: float
    """Seconds where the strong bar ends."""
    pale: float
    """Seconds where the pale bar ends."""
    scale: str = ""
    """Rows with the same name of a scale have one; its longest bar fills the width."""


def draw(title: str, legend: str, rows: Sequence[Row]) -> str:
    """Draw one row below the other; the title in the file says it in words.

    Returns
    -------
    str
        The text of an SVG file.
    """
    height = TOP + ROW * len(rows) + 18
    words = "; ".join(f"{row.name} {duration(row.strong)}, {duration(row.pale)}" for row in rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="{WIDTH}" height="{height}"'
        f' viewBox="0 0 {WIDTH} {height}" role="img"><style>{STYLE}</style>',
        f"<title>{escape(f'{title}: {words}')}</title>",
        '<rect class="page" width="100%" height="100%" rx="8"/>',
        f'<text class="title" x="20" y="32">{escape(title)}</text>',
        f'<text class="quiet" x="20" y="54">{escape(legend)}</text>',
    ]
    for number, row in enumerate(rows):
        longest = max(other.pale for other in rows if other.scale == row.scale)
        lines.append(_bar(row, TOP + ROW * number, (WIDTH - LEFT - RIGHT) / longest))
    return "\n".join([*lines, "</svg>", ""])


def _bar(row: Row, y: int, scale: float) -> str:
    strong = max(row.strong * scale, 1.5)
    pale = max((row.pale - row.strong) * scale, 0)
    line = f'y="{y + BAR / 2 + 5}"'
    bar = f'class="{"ours" if row.ours else "other"}{{}}" y="{y}" height="{BAR}" rx="2"'
    return (
        f'<text x="{LEFT - 12}" {line} text-anchor="end">{escape(row.name)}</text>'
        f'<rect {bar.format("")} x="{LEFT}" width="{strong:.1f}"/>'
        f'<rect {bar.format(" pale")} x="{LEFT + strong:.1f}" width="{pale:.1f}"/>'
        f'<text x="{LEFT + strong + pale + 8:.1f}" {line}>{duration(row.strong)}'
        f' <tspan class="quiet">/ {duration(row.pale)}</tspan></text>'
    )


def duration(seconds: float) -> str:
    """Format a time such as "3.21 s", "94 ms", "4.7 ms" or "120 µs"."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 0.01:
        return f"{seconds * 1e3:.0f} ms"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
