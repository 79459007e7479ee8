"""Output for people: tables as text and as Markdown, and a progress bar."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

NO_TERMINAL = 10_000
"""The width of a file or a pipe, in which no line of a table is broken."""


def times(value: float) -> str:
    """Format a ratio as "0.97x", "3.2x" or "61x"."""
    return f"{value:.2f}x" if value < 2 else f"{value:.1f}x" if value < 20 else f"{value:.0f}x"


def print_text(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table that fits the terminal, with the first column aligned to the left."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="")
    for place, header in enumerate(headers):
        table.add_column(Text(header), justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else NO_TERMINAL).print(table)


def print_markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the same table as Markdown."""
    rule = ["---", *["---:"] * (len(headers) - 1)]
    for line in (headers, rule, *rows):
        print(f"| {' | '.join(line)} |")


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Show a bar on the last line of a terminal until the end of the block.

    What it yields takes the share, from 0 to 1, and the name of the next step. Nothing is printed
    if standard error is no terminal. No thread draws beside what is measured.
    """
    console = Console(stderr=True)
    columns = BarColumn(24), TaskProgressColumn(), TextColumn("{task.description}", markup=False)
    with Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("", total=1.0)

        def show(share: float, what: str = "") -> None:
            progress.update(bar, completed=share, description=what, refresh=True)

        yield show
