"""Draws lines of text as SVG, where there is nothing to draw."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from farwrite_bench.report.frame import EDGE, LETTER, SMALL, WIDTH, Frame
from farwrite_bench.report.theme import INK

LINE, GAP = 16, 8
"""Heights: of a line, and between two texts."""


def listed(title: str, texts: Sequence[str]) -> str:
    """Write each text below the one before it."""
    across = WIDTH - 2 * EDGE
    wrapped = [textwrap.wrap(text, int(across / (LETTER * SMALL))) for text in texts]
    height = LINE * sum(map(len, wrapped)) + GAP * len(wrapped)
    chart = Frame(title, height, EDGE)
    plot = chart.empty((0, across), (height, 0))
    y = 0
    for text, parts in zip(texts, wrapped, strict=True):
        for part in parts:
            mark = chart.hover(text)
            plot.text(0, y + 12, part, fontsize=SMALL, color=INK, parse_math=False, gid=mark)
            y += LINE
        y += GAP
    return chart.svg(f"{title}: {'; '.join(texts)}")
