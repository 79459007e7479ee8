"""Draws charts as SVG: lines and distributions. The class of a series is its transport's key."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from farwrite.run.html_page import COLOURS
from farwrite_bench.report.axis import Axis, Write, around, plain
from farwrite_bench.report.theme import CHART, SERIES

WIDTH = 440
HEIGHT = 300
LEFT, RIGHT, TOP, BOTTOM = 72, 18, 66, 44
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


def lines(look: Look, series: Sequence[Series]) -> str:
    """Draw one line for each series."""
    points = [point for each in series for point in each.points]
    heights = [y for _, y in points] + [y for each in series for r in each.ranges for y in r[1:]]
    across = around((x for x, _ in points), LEFT, WIDTH - RIGHT, look.log_x, not look.log_x)
    up = around(heights, HEIGHT - BOTTOM, TOP, look.log_y, not look.log_y)
    drawn = list(_frame(look, across, up))
    drawn += _legend(series)
    for each in series:
        drawn.append(f'<g class="{each.key}">')
        if each.smooth > 1:
            drawn.append(_path("faint", each.points, across, up))
        drawn.append(_path("line", _smoothed(each.points, each.smooth), across, up))
        if each.smooth == 1:
            drawn += (
                f'<circle class="solid" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3"/>'
                for x, y in each.points
            )
        drawn += (
            f'<path class="line" d="M{across(x):.1f} {up(low):.1f}V{up(high):.1f}"/>'
            for x, low, high in each.ranges
        )
        drawn.append("</g>")
    return _svg(look.title, drawn)


def distribution(look: Look, series: Sequence[Series]) -> str:
    """Draw how often each value occurs. The dashed line is the median.

    The slowest hundredth may be beyond the right edge; it is added to the last bin.
    """
    shown = [
        statistics.quantiles(each.values, n=100)[98] if len(each.values) > 1 else each.values[0]
        for each in series
        if each.values
    ]
    across = around(shown, LEFT, WIDTH - RIGHT, zero=True)
    counts = {each.key: _counts(each.values, across) for each in series}
    highest = max((max(count) for count in counts.values()), default=1.0)
    up = Axis(0, highest * 1.1, HEIGHT - BOTTOM, TOP)
    drawn = list(_frame(look, across, up))
    drawn += _legend(series)
    for each in series:
        drawn.append(f'<g class="{each.key}">')
        drawn.append(_steps(counts[each.key], across, up))
        if each.values:
            x = across(statistics.median(each.values))
            drawn.append(f'<path class="mark" d="M{x:.1f} {HEIGHT - BOTTOM}V{TOP}"/>')
        drawn.append("</g>")
    return _svg(look.title, drawn)


def beside(title: str, charts: Sequence[str]) -> str:
    """Place charts next to each other; `title` is for screen readers."""
    placed = [
        f'<g transform="translate({place * WIDTH} 0)">{chart}</g>'
        for place, chart in enumerate(
            chart.replace("<svg ", f'<svg width="{WIDTH}" height="{HEIGHT}" ') for chart in charts
        )
    ]
    total = WIDTH * max(len(charts), 1)
    return _svg(title, placed, total)


def standalone(svg: str) -> str:
    """Make an SVG file from a chart: adds the colours, the fonts and a background."""
    head, body = svg.split(">", 1)
    style = f"<style>{COLOURS}{SERIES}{CHART}\n</style>"
    return f'{head}>{style}<rect class="page" width="100%" height="100%" rx="8"/>{body}\n'


def _svg(title: str, drawn: Sequence[str], width: int = WIDTH) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {HEIGHT}"'
            f' role="img" aria-label="{escape(title)}">',
            *drawn,
            "</svg>",
        ]
    )


def _frame(look: Look, across: Axis, up: Axis) -> Iterator[str]:
    floor = HEIGHT - BOTTOM
    yield f'<text class="title" x="20" y="26">{escape(look.title)}</text>'
    if look.y:
        for tick in up.ticks():
            y = up(tick)
            yield f'<path class="rule" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            yield (
                f'<text class="quiet" x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">'
                f"{escape(look.write_y(tick))}</text>"
            )
        yield (
            f'<text class="quiet" transform="translate(13 {(TOP + floor) / 2}) rotate(-90)"'
            f' text-anchor="middle">{escape(look.y)}</text>'
        )
    yield f'<path class="rule" d="M{LEFT} {floor}H{WIDTH - RIGHT}"/>'
    for tick in look.ticks_x or across.ticks():
        yield (
            f'<text class="quiet" x="{across(tick):.1f}" y="{floor + 16}" text-anchor="middle">'
            f"{escape(look.write_x(tick))}</text>"
        )
    yield (
        f'<text class="quiet" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 9}"'
        f' text-anchor="middle">{escape(look.x)}</text>'
    )


def _legend(series: Sequence[Series]) -> Iterator[str]:
    x = 20.0
    for each in series:
        yield f'<g class="{each.key}"><rect class="solid" x="{x:.0f}" y="38" width="11" height="11"'
        yield f' rx="2"/><text x="{x + 16:.0f}" y="48">{escape(each.name)}</text></g>'
        x += 34 + 6.8 * len(each.name)


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
