"""The charts of a benchmark, declared by the rows' keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.numbers import Write, plain, short_size
from farwrite_bench.report.parts import Facts, Row, figure, rows_of
from farwrite_bench.table import times

Chart = Callable[[Facts], list[str]]
"""Draws what a file holds, as SVG; nothing, where it has no rows that it shows."""


@dataclass(frozen=True)
class Bars:
    """A bar for each row, in groups."""

    title: str
    group: Callable[[Row], str]
    value: str
    unit: str
    series: str = "way"
    """The key of the row that names its bar."""
    rounds: str = ""
    """The key of the list whose lowest and highest value a thin line marks."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The name of a series in the chart, where it is not its own."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """The key of a series's colour, where it is not its own."""
    where: Callable[[Row], bool] = field(default=lambda _: True)
    rows: Callable[[Facts], Sequence[Row]] = rows_of
    """Makes the rows of what the file holds."""
    note: str = ""
    write: Callable[[Row], str] | None = None
    """Writes the value of a row, where it is more than a number and its unit."""
    baseline: float | None = None
    of: str = ""
    """The series of whose value in the same group each other value shows its multiple."""

    def __call__(self, facts: Facts) -> list[str]:
        """Draw one chart."""
        groups: dict[str, list[Row]] = {}
        for row in filter(self.where, self.rows(facts)):
            groups.setdefault(self.group(row), []).append(row)
        if not groups:
            return []
        found = [Group(name, self._bars(rows)) for name, rows in groups.items()]
        return [bars(self.title, found, self.note, self.baseline)]

    def _bars(self, rows: Sequence[Row]) -> list[Bar]:
        of = next((row[self.value] for row in rows if row[self.series] == self.of), None)
        return [self._bar(row, of if row[self.series] != self.of else None) for row in rows]

    def _bar(self, row: Row, of: float | None) -> Bar:
        key, value = row[self.series], row[self.value]
        rounds = row[self.rounds] if self.rounds else None
        ratio = f" ({times(value / of)})" if of else ""
        return Bar(
            self.colours.get(key, key),
            self.names.get(key, key),
            value,
            self.write(row) if self.write else f"{figure(value)} {self.unit}".rstrip() + ratio,
            (min(rounds), max(rounds)) if rounds else None,
        )


@dataclass(frozen=True)
class BySize:
    """A line for each series over the sizes; bars, where there is one size."""

    title: str
    y: str
    """What the vertical axis shows, with its unit."""
    value: str
    single: Bars | None = None
    """What is drawn where all rows have one size; without it, a line of one point."""
    x: str = "bytes of the tensor"
    series: str = "way"
    order: Sequence[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    where: Callable[[Row], bool] = field(default=lambda _: True)
    rows: Callable[[Facts], Sequence[Row]] = rows_of
    """Makes the rows of what the file holds."""
    rounds: str = ""
    """The key of the list whose lowest and highest value a thin line marks."""
    write_x: Write = short_size
    log_y: bool = True
    write_y: Write = plain

    def __call__(self, facts: Facts) -> list[str]:
        """Draw one chart."""
        shown = [row for row in self.rows(facts) if self.where(row)]
        sizes = sorted({row["size"] for row in shown})
        if not shown or (len(sizes) < 2 and self.single is not None):
            return self.single(facts) if self.single is not None else []
        look = Look(
            self.title,
            self.x,
            self.y,
            log_x=True,
            log_y=self.log_y,
            write_x=self.write_x,
            write_y=self.write_y,
            ticks_x=sizes,
        )
        keys = self.order or list(dict.fromkeys(row[self.series] for row in shown))
        series = [
            Series(
                self.colours.get(key, key),
                self.names.get(key, key),
                points,
                ranges=self._ranges(shown, key),
            )
            for key in keys
            if (points := sorted(self._points(shown, key)))
        ]
        return [lines(look, series)]

    def _points(self, rows: Sequence[Row], key: str) -> list[tuple[float, float]]:
        return [(row["size"], row[self.value]) for row in rows if row[self.series] == key]

    def _ranges(self, rows: Sequence[Row], key: str) -> list[tuple[float, float, float]]:
        return [
            (row["size"], min(values), max(values))
            for row in rows
            if row[self.series] == key and (values := row.get(self.rounds))
        ]
