"""HTML pages with charts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from farwrite.run.html_page import page
from farwrite_bench.report.theme import STYLE

_STYLE = """
  .cards, .charts { display: grid; gap: 14px; }
  .cards { grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); }
  .charts { grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr));
    align-items: start; margin: 14px 0; }
  .card, .charts > svg { background: var(--card); border: 1px solid var(--rule);
    border-radius: 8px; }
  .cards { margin: 18px 0; }
  .card { padding: 12px 14px; }
  .card span { display: block; line-height: 1.35; margin-top: 2px; }
  .card b { display: block; font-size: 1.6rem; line-height: 1.2; }
  .charts > svg { width: 100%; max-width: 520px; height: auto; display: block; }
  h3 { font-size: 1rem; margin: 1.6em 0 0.4em; max-width: 68ch; }
  p { overflow-wrap: anywhere; }
  td.long { min-width: 13em; }
  th, td { vertical-align: top; }
  details { border-top: 1px solid var(--rule); }"""


def chart_page(title: str, parts: Sequence[str]) -> str:
    """Make a page from its parts, which are HTML."""
    return page(title, parts, style=STYLE + _STYLE)


def cards(entries: Sequence[tuple[str, str]]) -> str:
    """Show figures in large type; an entry is a figure and its description."""
    drawn = (
        f'<div class="card"><b>{escape(figure)}</b><span class="quiet">{escape(what)}</span></div>'
        for figure, what in entries
    )
    return f'<div class="cards">{"".join(drawn)}</div>'


def subheading(text: str) -> str:
    """Start a part of a section."""
    return f"<h3>{escape(text)}</h3>"


def charts(drawn: Sequence[str]) -> str:
    """Place charts side by side where the page is wide enough."""
    return f'<div class="charts">{"".join(drawn)}</div>'
