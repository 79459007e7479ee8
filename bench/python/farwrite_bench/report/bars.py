"""Draws horizontal bars as SVG, in groups, with an optional baseline."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from farwrite_bench.report.frame import EDGE, LETTER, SMALL, TEXT, WIDTH, Frame
from farwrite_bench.report.theme import CARD, INK, colour

BAR, STEP, GROUP_LINE, GAP = 14, 18, 17, 9
"""Heights: of a bar, to the next bar, of a group's name, and between groups."""
BEHIND = {"facecolor": CARD, "edgecolor": "none", "pad": 1}
"""Hides the baseline behind a value."""


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
    names = [
        textwrap.wrap(group.name, int((WIDTH - 2 * EDGE) / (LETTER * TEXT))) for group in groups
    ]
    height = len(shown) * STEP + len(groups) * GAP + sum(map(len, names)) * GROUP_LINE
    chart = Frame(title, height, EDGE, note)
    chart.legend([*dict.fromkeys((bar.key, bar.name) for bar in shown)])
    most = max([bar.value for bar in shown] + [baseline or 0.0, 1e-12])
    most = max([most, *(min(bar.spread[1], 1.5 * most) for bar in shown if bar.spread)])
    room = max((len(bar.text) for bar in shown), default=0) * LETTER * SMALL + 10
    unit = most / (WIDTH - 2 * EDGE - room)
    plot = chart.empty((0, unit * (WIDTH - 2 * EDGE)), (height, 0))
    y = 0
    for group, name in zip(groups, names, strict=True):
        for part in name:
            plot.text(0, y + 12, part, fontsize=TEXT, color=INK)
            y += GROUP_LINE
        first = y
        for bar in group.bars:
            middle = y + BAR / 2
            mark = chart.hover(f"{group.name}, {bar.name}: {bar.text}")
            own, width = colour(bar.key), max(bar.value, 1.5 * unit)
            plot.barh(middle, width, BAR, color=own, linewidth=0, gid=mark)
            end = width
            if bar.spread is not None:
                low, high = (min(max(each, 0.0), most) for each in bar.spread)
                plot.errorbar(
                    [(low + high) / 2], [middle], xerr=[(high - low) / 2], ecolor=INK, alpha=0.7,
                    elinewidth=1, capsize=3, fmt="none",
                )  # fmt: skip
                end = max(end, high)
            plot.text(end + 6 * unit, y + 11.5, bar.text, fontsize=SMALL, color=INK, bbox=BEHIND)
            y += STEP
        if baseline is not None:
            style: dict[str, Any] = {"color": INK, "alpha": 0.75, "linestyle": (0, (3, 3))}
            plot.plot([baseline] * 2, [first - 2, y - 2], linewidth=1, **style)
        y += GAP
    return chart.svg(
        f"{title}: "
        + "; ".join(
            f"{group.name}: {', '.join(f'{bar.name} {bar.text}' for bar in group.bars)}"
            for group in groups
        )
    )
