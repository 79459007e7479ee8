"""The declaration of a benchmark: its command, its file and its part of the page follow from it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from farwrite_bench.harness.chart import Chart
from farwrite_bench.harness.column import Table
from farwrite_bench.harness.option import Option
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Card, Facts, Gain, failed_rows, largest, without_failures
from farwrite_bench.report.parts import Table as Cells

Plan = TypeVar("Plan")
Made = TypeVar("Made")


class Progress(Protocol):
    """Shows how far a run is."""

    def __call__(self, share: float, what: str = "") -> None:
        """Show `share`, from 0 to 1, and the name of the next step."""


def stage(progress: Progress, number: int, stages: int, name: str = "") -> Progress:
    """Return what shows the progress of one of several stages of equal length.

    With a `name`, it stands in front of what each step is.
    """
    return lambda share, what="": progress(
        (number + share) / stages, ", ".join(filter(None, (name, what)))
    )


@dataclass(frozen=True)
class Benchmark(Generic[Plan]):
    """One benchmark. `Plan` is what a run is to do, with every choice made."""

    name: str
    """Of the subcommand, and in the files."""
    description: str
    """What it does, for its help and above its figures."""
    options: Sequence[Option]
    plan: Callable[[argparse.Namespace, Record], Plan]
    """Makes the plan from the options; may add notes to the record. Raises errors of Farwrite."""
    measure: Callable[[Plan, Progress, Path], Facts | Iterator[Facts]]
    """Measures, and returns what the file holds beside the facts of every benchmark: most have
    ``rows``. A generator yields it several times, each time with more, and the file is written each
    time. The output of the processes that it starts goes to files in the folder.

    What fails is a row that has the reason as ``error``, beside the keys that the first columns of
    its table show (`farwrite_bench.failure.noting`). Only the tables get such rows."""
    tables: Sequence[Table]
    settings: Callable[[Plan], dict[str, Any]]
    """The choices that the file names."""
    summary: Callable[[Plan], str]
    """The same for people: the line above the table, behind the machine and its load."""
    notes: Callable[[Plan], Sequence[str]]
    """How it measured, for the file and below the table."""
    title: str
    """The heading of its part of the page."""
    more_help: str = ""
    """What only its help says behind the description."""
    more_options: Callable[[argparse.ArgumentParser], None] = field(default=lambda _: None)
    """Adds options that no `Option` can declare."""
    instead: Callable[[argparse.Namespace], int | None] = field(default=lambda _: None)
    """Does what the options ask for instead of a measurement, and returns the exit status."""
    example: str = ""
    """A command line for the help; without one, that with ``--quick``."""
    seconds: Callable[[Plan], float | None] = field(default=lambda _: None)
    """About how long a run takes, on two processors."""
    libraries: Callable[[Plan], Collection[str]] = field(default=lambda _: ())
    """What `cluster.plugin.make_ready` loads before the run."""
    needs: Sequence[str] = ()
    """Modules without which it cannot run."""
    sentences: Callable[[Facts], Iterable[str]] = field(default=lambda _: ())
    """What the figures say, in words."""
    charts: Sequence[Chart] = ()
    gains: Callable[[Facts], list[Gain]] = field(default=lambda _: [])
    """The gain of every row that compares Farwrite with something else."""
    gain_of: str = ""
    """What the largest gain is a gain of, such as "rate of stock gRPC": its key figure."""
    cards: Callable[[Facts], list[Card]] = field(default=lambda _: [])
    """Other key figures."""
    settings_key: str = "settings"
    """Under which the file has the settings; without one, each is a fact of the file."""
    passed: Callable[[Facts], bool] = field(default=lambda _: True)
    """Whether the command ends with status 0. If a row failed, it never does."""

    def figures(self, facts: Facts) -> list[str]:
        """Draw the charts."""
        return [chart for draw in self.charts for chart in self._of_measured(draw, facts)]

    def filled_tables(self, facts: Facts) -> list[Cells]:
        """Format the tables that have rows; a title may be empty."""
        found = [(table.title, table.heads(), table.cells(facts)) for table in self.tables]
        return [each for each in found if each[2]]

    def failures(self, facts: Facts) -> list[tuple[str, str]]:
        """Return what failed while it ran, named as in the tables, with the reasons in full."""
        return [
            (f"{_subject(table.title)}{name}", error)
            for table in self.tables
            for name, error in table.failures(facts)
        ]

    def all_sentences(self, facts: Facts) -> list[str]:
        """Return the sentences, of the figures and of what failed."""
        names: dict[str, list[str]] = {}
        for name, error in self.failures(facts):
            names.setdefault(error, []).append(name)
        failed = [f"{'; '.join(of_it)} failed: {error}" for error, of_it in names.items()]
        return [*failed, *self._of_measured(self.sentences, facts)]

    def all_gains(self, facts: Facts) -> list[Gain]:
        """Return the gain of every row that was measured."""
        return self._of_measured(self.gains, facts)

    def key_figures(self, facts: Facts) -> list[Card]:
        """Return the largest gain and the other key figures."""
        most = largest(self.all_gains(facts), self.gain_of) if self.gain_of else []
        return [*most, *self._of_measured(self.cards, facts)]

    def _of_measured(self, make: Callable[[Facts], Iterable[Made]], facts: Facts) -> list[Made]:
        """Make something of the rows that did not fail; nothing, where all of them failed."""
        if not failed_rows(facts.get("rows", ())):
            return list(make(facts))
        measured = without_failures(facts["rows"])
        return list(make({**facts, "rows": measured})) if measured else []


def _subject(title: str) -> str:
    """Return the subject of a table's title, to go before the name of a row."""
    return f"{re.split('[:;]', title)[0]}: " if title else ""
