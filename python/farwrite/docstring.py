"""Docstrings whose parameters or attributes come from a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable


def section(rows: Iterable[tuple[str, str]]) -> str:
    """Write pairs of a heading, ``name : type``, and a text as a section of a class docstring."""
    lines = []
    for heading, text in rows:
        lines.append(f"    {heading}")
        lines += textwrap.wrap(
            text, 92, initial_indent="        ", subsequent_indent="        ",
            break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)
