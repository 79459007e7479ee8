"""Docstrings whose parameters or attributes come from a table."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable

INDENT = "    " if sys.version_info < (3, 13) else ""
"""Of a class docstring: since Python 3.13 the compiler takes the indentation of the source off."""


def section(rows: Iterable[tuple[str, str]]) -> str:
    """Write pairs of a heading, ``name : type``, and a text as a section of a class docstring."""
    lines = []
    for heading, text in rows:
        lines.append(f"{INDENT}{heading}")
        lines += textwrap.wrap(
            text, 92, initial_indent=f"{INDENT}    ", subsequent_indent=f"{INDENT}    ",
            break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)
