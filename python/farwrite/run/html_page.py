"""An HTML page that needs no other file: sections, text and tables that fit any width."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

COLOURS = """
  :root, svg.chart {
    --page: #ffffff; --ink: #1f2328; --quiet: #59636e; --rule: #d1d9e0; --card: #f6f8fa;
  }
  @media (prefers-color-scheme: dark) {
    :root, svg.chart {
      --page: #0d1117; --ink: #e6edf3; --quiet: #9198a1; --rule: #30363d; --card: #151b23;
    }
  }"""
"""The colours of pages, and of the charts in them, in light and in dark."""

_PAGE = """
  html { color-scheme: light dark; }
  body { margin: 0 auto; max-width: 1080px; padding: 20px 16px 48px; background: var(--page);
    color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
  h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.4em 0; }
  h2 { font-size: 1.15rem; margin: 2em 0 0.6em; }
  p, li { max-width: 68ch; }
  .quiet { color: var(--quiet); font-size: 0.9rem; }
  .wide { overflow-x: auto; background:
    linear-gradient(to right, var(--page) 40%, transparent) left / 36px 100% no-repeat local,
    linear-gradient(to left, var(--page) 40%, transparent) right / 36px 100% no-repeat local,
    linear-gradient(to right, var(--quiet), transparent) left / 10px 100% no-repeat scroll,
    linear-gradient(to left, var(--quiet), transparent) right / 10px 100% no-repeat scroll; }
  table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
  th, td { padding: 5px 10px; border-bottom: 1px solid var(--rule); text-align: right;
    white-space: nowrap; }
  th { color: var(--quiet); font-weight: 600; }
  th:first-child, td:first-child { text-align: left; padding-left: 0; }
  summary { cursor: pointer; color: var(--quiet); padding: 8px 0; }
  .long { white-space: normal; min-width: 9em; overflow-wrap: anywhere; text-align: left; }
  code { font-size: 0.85em; overflow-wrap: anywhere; }"""


def page(title: str, parts: Sequence[str], style: str = "") -> str:
    """Make the page out of its parts, which are HTML; `style` is CSS that they need besides."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{COLOURS}{_PAGE}{style}\n</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body></html>",
            "",
        ]
    )


def heading(text: str) -> str:
    """Start a section."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, quiet: bool = False) -> str:
    """Say something."""
    kind = ' class="quiet"' if quiet else ""
    return f"<p{kind}>{escape(text)}</p>"


def bullets(texts: Sequence[str]) -> str:
    """Say several things."""
    return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in texts) + "</ul>"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], long: Sequence[int] = ()) -> str:
    """Lay out rows; on a narrow screen the table scrolls by itself, and a shadow shows where.

    `long`: columns of running text, which are broken.
    """
    kinds = [' class="long"' if column in long else "" for column in range(len(headers))]

    def row_of(tag: str, row: Sequence[str]) -> str:
        drawn = (
            f"<{tag}{kind}>{escape(text)}</{tag}>" for kind, text in zip(kinds, row, strict=True)
        )
        return f"<tr>{''.join(drawn)}</tr>"

    head, body = row_of("th", headers), "".join(row_of("td", row) for row in rows)
    return f'<div class="wide"><table>{head}{body}</table></div>'


def folded(summary: str, part: str) -> str:
    """Hide a part behind its summary until something opens it."""
    return f"<details><summary>{escape(summary)}</summary>{part}</details>"
