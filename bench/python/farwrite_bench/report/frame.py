"""The frame of a chart: its size, its title, its legend and its axes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from farwrite_bench.report.axis import Axis, Write, plain

WIDTH = 380
LEFT, RIGHT, BOTTOM = 58, 18, 44
UNIT_LINE = 16
"""The height of the line above a plot that names the vertical axis."""
PLOT = 190
"""The height of a chart's plot."""
EDGE = 16
"""Where the text begins and where it must end, from either side."""
TITLE_LINE, LEGEND_LINE = 20, 19
EM = 0.6
EM_BOLD = 0.64
"""About how wide a letter is, as a part of the size of the font."""
TEXT, SMALL, LARGE = 13.0, 12.0, 15.0
"""Sizes of the fonts in theme.py."""


@dataclass(frozen=True)
class Look:
    """The title and the axes of a chart."""

    title: str
    x: str
    y: str = ""
    log_x: bool = False
    log_y: bool = False
    write_x: Write = plain
    write_y: Write = plain
    ticks_x: Sequence[float] = field(default_factory=list)
    """Ticks that replace the choice of the axis."""

    def at(self, name: str, x: float, y: float) -> str:
        """Describe a point in words, with three digits."""
        value = self.write_y(float(f"{y:.3g}"))
        return f"{name}: {value} ({self.y}) at {self.write_x(x)} ({self.x})"


def text_width(text: str, size: float = SMALL) -> float:
    """Estimate the width of a text in a font of `size`."""
    return EM * size * len(text)


def header(title: str, entries: Sequence[tuple[str, str]], line: bool) -> tuple[list[str], float]:
    """Draw the title and the legend; return them, and where the plot may begin.

    Parameters
    ----------
    entries : sequence of (str, str)
        The key of a series, which selects its colour, and its name.
    line : bool
        The legend shows lines. Otherwise it shows areas.
    """
    drawn, y = [], 8.0
    for part in textwrap.wrap(title, int((WIDTH - 2 * EDGE) / (EM_BOLD * LARGE))):
        y += TITLE_LINE
        drawn.append(f'<text class="title" x="{EDGE}" y="{y - 2:.0f}">{escape(part)}</text>')
    x, y = float(EDGE), y + LEGEND_LINE
    for key, name in entries:
        needed = 22 + text_width(name, TEXT)
        if x > EDGE and x + needed > WIDTH - EDGE:
            x, y = float(EDGE), y + LEGEND_LINE
        sample = (
            f'<path class="line" d="M{x:.0f} {y - 4:.0f}h16"/>'
            if line
            else f'<rect class="solid" x="{x + 2:.0f}" y="{y - 10:.0f}" width="11" height="11"'
            ' rx="2"/>'
        )
        drawn.append(
            f'<g class="{key}">{sample}<text x="{x + 21:.0f}" y="{y:.0f}">{escape(name)}</text></g>'
        )
        x += needed + 14
    return drawn, y + (17 if entries else 0)


def footnote(text: str, y: float) -> tuple[list[str], float]:
    """Draw lines of small text below `y`; return them, and where they end."""
    drawn = []
    for part in textwrap.wrap(text, int((WIDTH - 2 * EDGE) / (EM * SMALL))):
        y += 16
        drawn.append(f'<text class="quiet" x="{EDGE}" y="{y:.0f}">{escape(part)}</text>')
    return drawn, y


def axes(look: Look, across: Axis, up: Axis) -> Iterator[str]:
    """Draw the axes with their labels. Labels that would touch are left out."""
    floor = up.start
    if look.y:
        last = floor + 20
        for tick in up.ticks():
            y = up(tick)
            if last - y < 15:
                continue
            last = y
            yield f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            yield (
                f'<text class="quiet" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
                f"{escape(look.write_y(tick))}</text>"
            )
        yield f'<text class="quiet" x="{EDGE}" y="{up.end - 12:.0f}">{escape(look.y)}</text>'
    yield f'<path class="rule" d="M{LEFT} {floor:.0f}H{WIDTH - RIGHT}"/>'
    end = 0.0
    for tick in look.ticks_x or across.ticks():
        name, x = look.write_x(tick), across(tick)
        half = text_width(name) / 2
        if x - half < end or x + half > WIDTH:
            continue
        end = x + half + 6
        yield (
            f'<text class="quiet" x="{x:.1f}" y="{floor + 16:.0f}" text-anchor="middle">'
            f"{escape(name)}</text>"
        )
    yield (
        f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{floor + 35:.0f}"'
        f' text-anchor="middle">{escape(look.x)}</text>'
    )


def hover(text: str) -> str:
    """Make the text that a reader sees who points at a mark."""
    return f"<title>{escape(text)}</title>"


def svg(label: str, drawn: Sequence[str], width: float, height: float) -> str:
    """Make a chart; `label` is for readers who do not see it."""
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" class="chart"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label={quoteattr(label)}>',
            *drawn,
            "</svg>",
        ]
    )


def size_of(chart: str) -> tuple[int, int]:
    """Return the width and the height of a chart."""
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert found is not None, "every chart is made by svg()"
    return int(found[1]), int(found[2])
