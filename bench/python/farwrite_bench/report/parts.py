"""What the page of all results gets from the file of one benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from farwrite_bench.table import times

Facts = dict[str, Any]
"""What a benchmark's JSON file holds."""
Row = dict[str, Any]
Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, the headers and the cells."""
Card = tuple[str, str]
"""A figure and its description."""
WIDEST = 200
"""The most letters of a reason in a table."""
HELPS_FROM = 1.05
"""The gain from which Farwrite helps. Less is not told from noise."""


@dataclass(frozen=True)
class Gain:
    """How many times better Farwrite is than something else, in one case."""

    case: str
    times: float
    than: str
    why: str = ""
    """What the row shows about the reason."""

    @property
    def helps(self) -> bool:
        """Whether this is more than noise."""
        return self.times >= HELPS_FROM


def rows_of(facts: Facts) -> list[Row]:
    """Return the rows of a file, without those of cases that failed or were skipped."""
    return [row for row in without_failures(facts["rows"]) if not row.get("skipped")]


def failed_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of what failed while the benchmark ran: ``error`` is the reason."""
    return [row for row in rows if row.get("error") is not None]


def without_failures(rows: Iterable[Row]) -> list[Row]:
    """Return the others: those have no figures."""
    return [row for row in rows if row.get("error") is None]


def sentence_of(error: str) -> str:
    """Return what happened, for a table: without the benchmark, the remedy and the log."""
    first = re.sub(r"^bench( \w+)?: ", "", next(iter(error.splitlines()), "no reason given"))
    what = first.partition("; ")[0]
    return what if len(what) <= WIDEST else f"{what[: WIDEST - 3]}..."


def largest(gains: Sequence[Gain], what: str) -> list[Card]:
    """Make the card of the largest gain: its factor, `what`, and its case. Without a gain, none."""
    best = max((gain for gain in gains if gain.helps), key=lambda gain: gain.times, default=None)
    return [] if best is None else [(times(best.times), f"{what}, {best.case}")]


def figure(value: float | None, digits: int = 3) -> str:
    """Format a value with some digits; a dash means that nothing measured it."""
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:.0f}"


def varying(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Return the names of the columns with more than one value."""
    return [name for name in names if len({str(row.get(name)) for row in rows}) > 1]
