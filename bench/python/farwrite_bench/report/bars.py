"""Draws horizontal bars as SVG, in groups, with an optional baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from farwrite_bench.report.frame import (
    EDGE,
    SMALL,
    WIDTH,
    footnote,
    header,
    hover,
    svg,
    text_width,
)

BAR, STEP = 14, 18
"""The height of a bar, and the distance to the next."""
NAME_LINE, GAP = 17, 9


@dataclass(frozen=True)
class Bar:
    """One value."""

    key: str
    """Selects the colour."""
    name: str
    """Of the series, as in the legend."""
    value: float
    text: str
    """The value with its unit, drawn beside the bar."""
    spread: tuple[float, float] | None = None
    """The interval that a thin line marks."""


@dataclass(frozen=True)
class Group:
    """Bars of one case."""

    name: str
    bars: Sequence[Bar]


def bars(title: str, groups: Sequence[Group], note: str = "", baseline: float | None = None) -> str:
    """Draw each group's bars below its name, from zero to the right.

    Parameters
    ----------
    note : str
        A small text below the bars.
    baseline : float, optional
        A value that a dashed line marks in every group.
    """
    shown = [bar for group in groups for bar in group.bars]
    legend = dict.fromkeys((bar.key, bar.name) for bar in shown)
    drawn, y = header(title, [*legend], line=False)
    y -= 4
    most = max([bar.value for bar in shown] + [baseline or 0.0, 1e-12])
    most = max([most, *(min(bar.spread[1], 1.5 * most) for bar in shown if bar.spread)])
    room = max((text_width(bar.text, SMALL) for bar in shown), default=0) + 10
    scale = (WIDTH - 2 * EDGE - room) / most
    for group in groups:
        drawn.append(f'<text x="{EDGE}" y="{y + 12:.0f}">{escape(group.name)}</text>')
        y += NAME_LINE
        first, values = y, []
        for bar in group.bars:
            shape, value = _bar(group, bar, y, scale, most)
            drawn.append(shape)
            values.append(value)
            y += STEP
        if baseline is not None:
            x = EDGE + baseline * scale
            drawn.append(f'<path class="base" d="M{x:.1f} {first - 2:.0f}V{y - 2:.0f}"/>')
        drawn += values  # over the baseline
        y += GAP
    if note:
        lines, y = footnote(note, y - 4)
        drawn += lines
    label = f"{title}: " + "; ".join(
        f"{group.name}: {', '.join(f'{bar.name} {bar.text}' for bar in group.bars)}"
        for group in groups
    )
    return svg(label, drawn, WIDTH, y + (14 if note else 5))


def _bar(group: Group, bar: Bar, y: float, scale: float, most: float) -> tuple[str, str]:
    """Draw a bar, and its value."""
    width = max(bar.value * scale, 1.5)
    end = EDGE + width
    spread = ""
    if bar.spread is not None:
        low, high = (EDGE + min(max(each, 0.0), most) * scale for each in bar.spread)
        middle = y + BAR / 2
        spread = (
            f'<path class="whisker" d="M{low:.1f} {middle:.0f}H{high:.1f}M{low:.1f}'
            f' {middle - 3:.0f}v6M{high:.1f} {middle - 3:.0f}v6"/>'
        )
        end = max(end, high)
    return (
        f'<g class="{bar.key}"><rect class="solid" x="{EDGE}" y="{y:.0f}" width="{width:.1f}"'
        f' height="{BAR}" rx="2">{hover(f"{group.name}, {bar.name}: {bar.text}")}</rect>{spread}'
        "</g>",
        f'<text class="value" x="{end + 6:.1f}" y="{y + 11.5:.1f}">{escape(bar.text)}</text>',
    )
