"""Draws lines as SVG. A series is coloured by its transport's key."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from farwrite_bench.report.frame import BOLD, PLOT, SMALL, WIDTH, Frame, Look, size_of, svg
from farwrite_bench.report.theme import STYLE, colour, dashes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_LINE = 14
"""The distance of two names at the ends of lines."""


@dataclass(frozen=True)
class Series:
    """The values of one transport."""

    key: str
    """The key of the transport, which selects the colour."""
    name: str
    points: Sequence[tuple[float, float]] = ()
    ranges: Sequence[tuple[float, float, float]] = ()
    """x, and the interval of y that is marked there."""


def lines(look: Look, series: Sequence[Series]) -> str:
    """Draw one line for each series, with its name where it ends."""
    names = [textwrap.wrap(each.name, 18, break_long_words=False) for each in series]
    height = max(PLOT, NAME_LINE * sum(map(len, names)) + 10)
    letters = max(len(part) for name in names for part in name)
    chart = Frame(look.title, height, letters * BOLD * SMALL + 18)
    plot = chart.plot(look)
    for each in series:
        own = colour(each.key)
        xs, ys = zip(*each.points, strict=True)
        plot.plot(xs, ys, color=own, linestyle=dashes(each.key), linewidth=2)
        for x, low, high in each.ranges:
            plot.plot([x, x], [low, high], color=own, linewidth=2)
        for x, y in each.points:
            mark = chart.hover(look.at(each.name, x, y))
            plot.plot([x], [y], marker="o", markersize=6, color=own, gid=mark)
    _name_ends(plot, series, names)
    label = f"{look.y} by {look.x}" if look.y else look.x
    return chart.svg(f"{look.title}: {label}; {', '.join(each.name for each in series)}")


def beside(title: str, charts: Sequence[str]) -> str:
    """Place charts next to each other; `title` is for readers who do not see them."""
    placed = []
    for place, chart in enumerate(charts):
        width, height = size_of(chart)
        sized = chart.replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
        placed.append(f'<g transform="translate({place * WIDTH} 0)">{sized}</g>')
    highest = max((size_of(chart)[1] for chart in charts), default=1)
    return svg(title, "\n".join(placed), WIDTH * max(len(charts), 1), highest)


def standalone(drawing: str) -> str:
    """Make an SVG file from a chart: adds the colours, the fonts and a background."""
    head, body = drawing.split(">", 1)
    page = '<rect style="fill: var(--page)" width="100%" height="100%" rx="8"/>'
    return f"{head}><style>{STYLE}\n</style>{page}{body}\n"


def _name_ends(plot: Axes, series: Sequence[Series], names: Sequence[Sequence[str]]) -> None:
    """Write each line's name beside its end, and no two over each other."""
    plot.get_xlim(), plot.get_ylim()  # which chooses both, from what is drawn
    height = plot.get_window_extent().height
    across, up = plot.transData, plot.transAxes.inverted()
    ends = [up.transform(across.transform(each.points[-1]))[1] * height for each in series]
    order = sorted(range(len(series)), key=lambda place: ends[place])
    needed = [NAME_LINE * len(name) for name in names]
    # Each as low as its line and the names below it allow; then down from the top.
    floor, bottoms = -4.0, {}
    for place in order:
        bottoms[place] = max(ends[place] - needed[place] / 2, floor)
        floor = bottoms[place] + needed[place]
    ceiling = min(floor, height + 4)
    for place in reversed(order):
        bottom = min(bottoms[place], ceiling - needed[place])
        ceiling = bottom
        own = colour(series[place].key)
        line = {"arrowstyle": "-", "color": own, "linewidth": 0.8, "alpha": 0.5}
        line |= {"relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 3}  # to where the name begins
        plot.annotate(
            "\n".join(names[place]),
            xy=series[place].points[-1],
            xytext=(1.04, (bottom + needed[place] / 2) / height),
            textcoords="axes fraction",
            fontsize=SMALL,
            color=own,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops=line,
        )
