"""Draws charts as SVG: lines and distributions. The class of a series is its transport's key."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from farwrite.run.html_page import COLOURS
from farwrite_bench.report.axis import Axis, around
from farwrite_bench.report.frame import (
    BOTTOM,
    LEFT,
    PLOT,
    RIGHT,
    UNIT_LINE,
    WIDTH,
    Look,
    axes,
    header,
    hover,
    size_of,
    svg,
)
from farwrite_bench.report.theme import CHART, SERIES

BINS = 48


@dataclass(frozen=True)
class Series:
    """The values of one transport."""

    key: str
    """The key of the transport, which selects the colour."""
    name: str
    points: Sequence[tuple[float, float]] = ()
    """For lines: the points."""
    smooth: int = 1
    """For lines: the line is the mean over this many points, and the points are drawn faintly."""
    ranges: Sequence[tuple[float, float, float]] = ()
    """For lines: x, and the interval of y that is marked there."""
    values: Sequence[float] = ()
    """For distributions: the values."""


def lines(look: Look, series: Sequence[Series]) -> str:
    """Draw one line for each series."""
    points = [point for each in series for point in each.points]
    heights = [y for _, y in points] + [y for each in series for r in each.ranges for y in r[1:]]
    drawn, top = header(look.title, _entries(series), line=True)
    top += UNIT_LINE
    floor = top + PLOT
    across = around((x for x, _ in points), LEFT, WIDTH - RIGHT, look.log_x, not look.log_x)
    up = around(heights, floor, top, look.log_y, not look.log_y)
    drawn += axes(look, across, up)
    for each in series:
        drawn.append(f'<g class="{each.key}">')
        if each.smooth > 1:
            drawn.append(_path("faint", each.points, across, up))
        drawn.append(_path("line", _smoothed(each.points, each.smooth), across, up))
        drawn += (
            f'<path class="range" d="M{across(x):.1f} {up(low):.1f}V{up(high):.1f}"/>'
            for x, low, high in each.ranges
        )
        if each.smooth == 1:
            drawn += (
                f'<circle class="solid" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3.5">'
                f"{hover(look.at(each.name, x, y))}</circle>"
                for x, y in each.points
            )
        drawn.append("</g>")
    return svg(_label(look, series), drawn, WIDTH, floor + BOTTOM)


def distribution(look: Look, series: Sequence[Series]) -> str:
    """Draw how often each value occurs. The dashed line is the median.

    The slowest hundredth may be beyond the right edge; it is added to the last bin.
    """
    shown = [
        statistics.quantiles(each.values, n=100)[98] if len(each.values) > 1 else each.values[0]
        for each in series
        if each.values
    ]
    drawn, top = header(look.title, _entries(series), line=False)
    top += UNIT_LINE
    floor = top + PLOT
    across = around(shown, LEFT, WIDTH - RIGHT, zero=True)
    counts = {each.key: _counts(each.values, across) for each in series}
    highest = max((max(count) for count in counts.values()), default=1.0)
    up = Axis(0, highest * 1.1, floor, top)
    drawn += axes(look, across, up)
    for each in series:
        drawn.append(f'<g class="{each.key}">')
        drawn.append(_steps(counts[each.key], across, up))
        if each.values:
            middle = statistics.median(each.values)
            x = across(middle)
            drawn.append(
                f'<path class="mark" d="M{x:.1f} {floor:.0f}V{top:.0f}">'
                f"{hover(f'{each.name}: median {middle:.3g}')}</path>"
            )
        drawn.append("</g>")
    return svg(_label(look, series), drawn, WIDTH, floor + BOTTOM)


def beside(title: str, charts: Sequence[str]) -> str:
    """Place charts next to each other; `title` is for readers who do not see them."""
    placed = []
    for place, chart in enumerate(charts):
        width, height = size_of(chart)
        sized = chart.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
        placed.append(f'<g transform="translate({place * WIDTH} 0)">{sized}</g>')
    highest = max((size_of(chart)[1] for chart in charts), default=1)
    return svg(title, placed, WIDTH * max(len(charts), 1), highest)


def standalone(drawing: str) -> str:
    """Make an SVG file from a chart: adds the colours, the fonts and a background."""
    head, body = drawing.split(">", 1)
    style = f"<style>{COLOURS}{SERIES}{CHART}\n</style>"
    return f'{head}>{style}<rect class="page" width="100%" height="100%" rx="8"/>{body}\n'


def _entries(series: Sequence[Series]) -> list[tuple[str, str]]:
    return [(each.key, each.name) for each in series]


def _label(look: Look, series: Sequence[Series]) -> str:
    axes_named = f"{look.y} by {look.x}" if look.y else look.x
    return f"{look.title}: {axes_named}; {', '.join(each.name for each in series)}"


def _path(kind: str, points: Sequence[tuple[float, float]], across: Axis, up: Axis) -> str:
    places = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{places}"/>'


def _smoothed(points: Sequence[tuple[float, float]], over: int) -> list[tuple[float, float]]:
    result = []
    for place, (x, _) in enumerate(points):
        near = points[max(place - over // 2, 0) : place + over // 2 + 1]
        result.append((x, statistics.fmean(y for _, y in near)))
    return result


def _counts(values: Sequence[float], across: Axis) -> list[float]:
    counts = [0.0] * BINS
    for value in values:
        share = (value - across.low) / (across.high - across.low)
        counts[min(max(int(share * BINS), 0), BINS - 1)] += 1 / len(values)
    return counts


def _steps(counts: Sequence[float], across: Axis, up: Axis) -> str:
    width = (across.end - across.start) / BINS
    path = [f"M{across.start:.1f} {up.start:.1f}"]
    for place, count in enumerate(counts):
        path.append(f"V{up(count):.1f}H{across.start + (place + 1) * width:.1f}")
    return f'<path class="area" d="{"".join(path)}V{up.start:.1f}Z"/>'
