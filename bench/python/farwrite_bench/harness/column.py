"""The tables of a benchmark, and their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from farwrite_bench.report.parts import Facts, Row, sentence_of

NOTHING = "-"
"""A value that was not measured."""


@dataclass(frozen=True)
class Column:
    """One column."""

    head: str
    """The heading, with the unit."""
    value: str | Callable[[Row], Any]
    """The key of the row, or what computes the value."""
    form: str | Callable[[Any], str] = ""
    """How a value is written: a format, or a function."""

    def cell(self, row: Row) -> str:
        """Format the value of a row."""
        value = row[self.value] if isinstance(self.value, str) else self.value(row)
        if value is None:
            return NOTHING
        return in_full(value, self.form) if isinstance(self.form, str) else self.form(value)


def in_full(value: Any, form: str) -> str:
    """Format `value`, and write a large number in full: 11660, not 1.166e+04."""
    text = format(value, form)
    return f"{float(text):.0f}" if "e+" in text else text


def span(head: str, key: str, form: str) -> Column:
    """Make the column of the lowest and the highest value of a list of rounds."""
    return Column(
        head, key, lambda values: f"{in_full(min(values), form)} to {in_full(max(values), form)}"
    )


def ratio(head: str, key: str, form: str) -> Column:
    """Make the column of the median of a ratio; see `ratio_of_rounds`."""
    return Column(head, lambda row: row[key] and row[key]["median"], form)


def spread(head: str, key: str, form: str) -> Column:
    """Make the column of a ratio's lowest and highest value."""

    def write(of: dict[str, float]) -> str:
        return f"{in_full(of['low'], form)} to {in_full(of['high'], form)}"

    return Column(head, key, write)


def marked(target: str | None, met: bool | None) -> str | None:
    """Write a target, and whether it was met; None where there is none."""
    mark = {True: " ok", False: " MISSED", None: ""}[met]
    return None if target is None else f"{target}{mark}"


@dataclass(frozen=True)
class Table:
    """One table."""

    columns: Sequence[Column]
    title: str = ""
    """Its heading, where a benchmark has several."""
    rows: Callable[[Facts], Sequence[Row]] = field(default=lambda facts: facts["rows"])
    """Makes its rows of what the file holds. A table without rows is not shown."""
    named: int = 1
    """How many of its first columns name a row. One that failed has the reason and no others."""

    def heads(self) -> list[str]:
        """Return the headings."""
        return [column.head for column in self.columns]

    def cells(self, facts: Facts) -> list[list[str]]:
        """Format the rows."""
        return [self._line(row) for row in self.rows(facts)]

    def failures(self, facts: Facts) -> list[tuple[str, str]]:
        """Return the names of the rows that failed, with the reasons in full."""
        return [
            (", ".join(cell for cell in self._names(row) if cell != NOTHING), row["error"])
            for row in self.rows(facts)
            if row.get("error") is not None
        ]

    def _line(self, row: Row) -> list[str]:
        if row.get("error") is None:
            return [column.cell(row) for column in self.columns]
        names = self._names(row)
        nothing = [NOTHING] * (len(self.columns) - len(names) - 1)
        return [*names, *nothing, f"failed: {sentence_of(row['error'])}"]

    def _names(self, row: Row) -> list[str]:
        return [column.cell(row) for column in self.columns[: self.named]]
