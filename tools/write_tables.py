"""Writes the tables of options and counters into the pages of docs/reference.

    python tools/write_tables.py [--check]

A table stands between the lines ``<!-- table NAME -->`` and ``<!-- end of NAME -->`` of its page.
With --check, nothing is written; the exit status is 1 if a page is not current.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from farwrite.metrics.counter import COUNTERS, Counter
from farwrite.options.option import Option, Place
from farwrite.options.table import HEADERS, OPTIONS, row
from farwrite.plugin.stats import COUNTERS as TENSORFLOW_COUNTERS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


def options() -> str:
    """Make the table of every option."""
    return _table(HEADERS, map(_cells, OPTIONS))


def tensorflow_options() -> str:
    """Make the table of the variables that the TensorFlow plug-in and its process read."""
    chosen = (
        _cells(option)
        for option in OPTIONS
        if {Place.PLUGIN, Place.PROCESS} & set(option.places) and not option.fabric
    )
    return _table(
        ("variable", *HEADERS[3:]), ((variable, *rest) for _, variable, _, *rest in chosen)
    )


def counters(rows: Iterable[Counter]) -> str:
    """Make the table of these counters."""
    lines = [
        (
            _code(counter.name),
            _code(counter.metric),
            ", ".join(f'`{name}="{value}"`' for name, value in counter.labels.items()),
            counter.meaning,
        )
        for counter in rows
    ]
    columns = zip(("`stats()`", "metric", "labels", "meaning"), *lines, strict=True)
    headers, *body = zip(*(column for column in columns if any(column[1:])), strict=True)
    return _table(headers, body)


TABLES: dict[str, Callable[[], str]] = {
    "options": options,
    "tensorflow_options": tensorflow_options,
    "TensorFlowStats": partial(counters, TENSORFLOW_COUNTERS),
    **{stats: partial(counters, rows) for stats, rows in COUNTERS.items()},
}


def page(file: Path) -> str:
    """Return the text of `file` with new tables."""

    def table(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!-- table {name} -->\n{TABLES[name]()}<!-- end of {name} -->"

    return re.sub(r"<!-- table (\w+) -->\n(?s:.*?)<!-- end of \1 -->", table, file.read_text())


def _cells(option: Option) -> tuple[str, ...]:
    name, variable, where, kind, default, meaning = row(option)
    return _code(name), _code(variable), where, kind, _code(default), meaning


def _table(headers: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    headers = tuple(headers)
    lines = [f"| {' | '.join(map(_escaped, cells))} |" for cells in (headers, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(headers), *lines[1:]]) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _code(cell: str) -> str:
    return f"`{cell}`" if cell and not cell.startswith("(") and cell != "none" else cell


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    status = 0
    for file in sorted(FOLDER.glob("*.md")):
        text = page(file)
        if not check:
            file.write_text(text)
        elif file.read_text() != text:
            print(f"{file} is not current: python tools/write_tables.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
