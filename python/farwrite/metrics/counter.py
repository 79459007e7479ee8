"""Counter: a row of the core's table of counters (src/core/counter_table.cc)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from farwrite import _farwrite
from farwrite.docstring import INDENT, section

T = TypeVar("T")


class Counter(NamedTuple):
    """One row of the table."""

    name: str
    """The attribute of the object that ``stats()`` returns."""
    meaning: str
    metric: str
    """Its name for Prometheus; empty if it has none. A counter ends in ``_total``."""
    labels: dict[str, str]


COUNTERS: dict[str, tuple[Counter, ...]] = {
    stats: tuple(Counter(**row) for row in rows) for stats, rows in _farwrite.counters().items()
}
"""The rows of each class of counters, by the name of the class."""


def counters(stats: type[T]) -> type[T]:
    """Write the rows of the table into the docstring of the class `stats`."""
    if stats.__doc__ is not None:  # python -OO
        rows = ((f"{counter.name} : int", counter.meaning) for counter in COUNTERS[stats.__name__])
        head = stats.__doc__.rstrip() + f"\n\n{INDENT}Attributes\n{INDENT}----------\n"
        stats.__doc__ = head + section(rows) + f"\n{INDENT}"
    return stats
