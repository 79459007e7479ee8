"""A chart under construction: its title, its legend and its axes, drawn as SVG by matplotlib.

A chart is 380 units wide, as wide as a phone shows without shrinking its text.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from farwrite_bench.report.numbers import Write, plain
from farwrite_bench.report.theme import INK, QUIET, RULE, colour, with_modes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 380
EDGE, LEFT, BOTTOM = 16, 66, 44
PLOT = 190
"""The least height of a plot."""
TEXT, SMALL, LARGE = 13, 12, 15
"""Sizes of the fonts."""
LETTER, BOLD = 0.58, 0.64
"""About how wide a letter is, as a part of the size of its font."""
TITLE_LINE, LEGEND_LINE, NOTE_LINE, SAMPLE = 20, 17, 16, 36


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
    ticks_x: Sequence[float] = ()
    """Ticks that replace the choice of the axis."""

    def at(self, name: str, x: float, y: float) -> str:
        """Describe a point in words, with three digits."""
        value = self.write_y(float(f"{y:.3g}"))
        return f"{name}: {value} ({self.y}) at {self.write_x(x)} ({self.x})"


class Frame:
    """A figure under construction. Its unit is that of the SVG; positions count from the top."""

    def __init__(self, title: str, plot: int, right: float, note: str = "") -> None:
        # Loaded only where something is drawn: it takes half a second.
        from matplotlib.figure import Figure

        self._title = textwrap.wrap(title, int((WIDTH - 2 * EDGE) / (BOLD * LARGE)))
        self._note = textwrap.wrap(note, int((WIDTH - 2 * EDGE) / (LETTER * SMALL)))
        self._entries: list[list[tuple[float, str, str]]] = []
        self._plot, self._right = plot, right
        self._hovers: list[str] = []
        self._figure: Figure = Figure(dpi=72, facecolor="none")
        self._height = 0

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Name series, by their keys, above the plot."""
        x = float(WIDTH)
        for key, name in entries:
            needed = SAMPLE + LETTER * TEXT * len(name)
            if x + needed > WIDTH - EDGE + 14:
                self._entries.append([])
                x = EDGE
            self._entries[-1].append((x, key, name))
            x += needed

    def hover(self, text: str) -> str:
        """Return the id of a mark that shows `text` to a reader who points at it."""
        self._hovers.append(text)
        return f"mark-{len(self._hovers) - 1}-"

    def empty(self, across: tuple[float, float], down: tuple[float, float]) -> Axes:
        """Return axes without a frame."""
        plot = self._place(EDGE, 12)
        plot.set_axis_off()
        plot.set_xlim(*across)
        plot.set_ylim(*down)
        return plot

    def plot(self, look: Look) -> Axes:
        """Return axes with ticks and names."""
        from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

        plot = self._place(LEFT, BOTTOM)
        for side in ("top", "left", "right"):
            plot.spines[side].set_visible(False)
        plot.spines["bottom"].set_color(RULE)
        plot.grid(axis="y", color=RULE, linewidth=1)
        plot.set_axisbelow(True)
        plot.tick_params(length=0, pad=6, labelsize=SMALL, labelcolor=QUIET)
        plot.set_xlabel(look.x, fontsize=SMALL, color=QUIET, labelpad=6)
        self._text(EDGE, self._top - 8, look.y, SMALL, QUIET)
        plot.set_xscale("log" if look.log_x else "linear")
        plot.set_yscale("log" if look.log_y else "linear")
        for axis, log, write in (
            (plot.xaxis, look.log_x, look.write_x),
            (plot.yaxis, look.log_y, look.write_y),
        ):
            axis.set_major_locator(
                LogLocator(numticks=6) if log else MaxNLocator(5, steps=[1, 2, 5, 10])
            )
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _, write=write: write(value)))
        if look.ticks_x:
            longest = max(len(look.write_x(tick)) for tick in look.ticks_x)
            across = 0.9 * (WIDTH - LEFT - self._right)  # minus the margins of the data
            plot.set_xticks(_apart(look, (longest * LETTER * SMALL + 8) / across))
        return plot

    def svg(self, label: str) -> str:
        """Draw it; `label` is for readers who do not see it."""
        from matplotlib import rc_context

        drawn = io.StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
            none = dict.fromkeys(("Creator", "Date", "Format", "Type"))
            self._figure.savefig(drawn, format="svg", metadata=none)
        text = drawn.getvalue()
        body = text[text.index(">", text.index("<svg ")) + 1 : text.rindex("</svg>")]
        body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
        body = re.sub(
            r' id="mark-(\d+)-">',
            lambda found: f"><title>{escape(self._hovers[int(found[1])])}</title>",
            body,
        )
        body = re.sub(r'<g id="[^"]*"', "<g", body).replace("xlink:href", "href")
        body = re.sub(r" font-family: [^;]+;", "", body)  # which STYLE has
        body = re.sub(r' transform="rotate\(-0 [^"]*"', "", body)
        return svg(label, with_modes(body.strip()), WIDTH, self._height)

    def _place(self, left: float, bottom: float) -> Axes:
        """Draw what is above and below the plot, and return the plot."""
        y = 8.0 + TITLE_LINE * len(self._title)
        top = y + LEGEND_LINE * len(self._entries) + 12 + (16 if bottom == BOTTOM else 0)
        floor = top + self._plot
        self._height = round(floor + (NOTE_LINE * len(self._note) + 14 if self._note else bottom))
        self._top = top
        self._figure.set_size_inches(WIDTH / 72, self._height / 72)
        for place, part in enumerate(self._title):
            self._text(EDGE, 26 + TITLE_LINE * place, part, LARGE, INK, weight="bold")
        for row, entries in enumerate(self._entries):
            line = y + LEGEND_LINE * (row + 1)
            for x, key, name in entries:
                self._rectangle(x + 2, line - 10, 11, colour(key))
                self._text(x + 21, line, name, TEXT, INK)
        for place, part in enumerate(self._note):
            self._text(EDGE, floor + 12 + NOTE_LINE * place, part, SMALL, QUIET)
        across = (WIDTH - left - self._right) / WIDTH
        box = (left / WIDTH, 1 - floor / self._height, across, self._plot / self._height)
        return self._figure.add_axes(box, facecolor="none")

    def _text(self, x: float, y: float, text: str, size: int, ink: str, **style: Any) -> None:
        place = x / WIDTH, 1 - y / self._height
        self._figure.text(*place, text, fontsize=size, color=ink, **style)

    def _rectangle(self, x: float, y: float, side: float, ink: str) -> None:
        from matplotlib.patches import Rectangle

        corner = x / WIDTH, 1 - (y + side) / self._height
        patch = Rectangle(corner, side / WIDTH, side / self._height, color=ink, linewidth=0)
        self._figure.add_artist(patch)


def _apart(look: Look, least: float) -> list[float]:
    """Return the first tick, the last one, and those between that are `least` of the axis apart."""
    places = np.log(look.ticks_x) if look.log_x else np.asarray(look.ticks_x, float)
    places = (places - places[0]) / max(places[-1] - places[0], 1e-9)
    kept = [0]
    for at in range(1, len(places) - 1):
        if places[at] - places[kept[-1]] >= least and 1 - places[at] >= least:
            kept.append(at)
    return [look.ticks_x[at] for at in dict.fromkeys((*kept, len(places) - 1))]


def svg(label: str, body: str, width: int, height: int) -> str:
    """Make a chart of what is drawn; `label` is for readers who do not see it."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="chart"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label={quoteattr(label)}>\n'
        f"{body}\n</svg>"
    )


def size_of(chart: str) -> tuple[int, int]:
    """Return the width and the height of a chart."""
    found = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert found is not None, "every chart is made by svg()"
    return int(found[1]), int(found[2])
