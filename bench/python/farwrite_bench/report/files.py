"""Reads the JSON files of benchmarks in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from farwrite.errors import NotFound
from farwrite_bench.benchmarks import benchmarks
from farwrite_bench.report.parts import Card, Facts, Gain, Table


@dataclass(frozen=True)
class Run:
    """One file, and what it adds to the page."""

    file: str
    benchmark: str
    facts: Facts
    date: str
    figures: Sequence[str]
    tables: Sequence[Table]
    cards: Sequence[Card]
    gains: Sequence[Gain]

    @property
    def settings(self) -> dict[str, object]:
        """How the benchmark was set up."""
        facts = self.facts
        chosen = dict(facts.get("settings") or facts.get("plan") or facts.get("channel") or {})
        for name in ("fabric", "rounds", "network_bytes"):
            if name in facts:
                chosen[name] = facts[name]
        return {name: value for name, value in chosen.items() if value is not None}


@dataclass(frozen=True)
class LeftOut:
    """A file that is not on the page."""

    file: str
    why: str


def read_folder(folder: Path) -> tuple[list[Run], list[LeftOut]]:
    """Read every JSON file of a folder; those that cannot be shown are returned with the reason.

    Raises
    ------
    NotFound
        If the folder does not exist, or has no JSON file.
    """
    if not folder.is_dir():
        raise NotFound(
            f"report: {folder} is not a folder; name the folder of the files that farwrite bench"
            " wrote with --json"
        )
    runs, left_out = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            runs.append(read_file(path))
        except ValueError as error:
            left_out.append(LeftOut(path.name, str(error)))
    if not runs and not left_out:
        raise NotFound(
            f"report: {folder} has no JSON file; run a benchmark first, such as: farwrite bench p2p"
            f" --quick --json {folder / 'p2p.json'}"
        )
    order = [*benchmarks()]
    return sorted(runs, key=lambda run: (order.index(run.benchmark), run.file)), left_out


def read_file(path: Path) -> Run:
    """Read one file, and draw what it adds to the page.

    Raises
    ------
    ValueError
        If the file is not the whole result of a known benchmark. The text has the reason.
    """
    if path.exists() and not path.is_file():  # to open a pipe would wait for its writer
        raise ValueError("it is no regular file")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ValueError("it is not a text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}; the run may have been interrupted") from error
    except RecursionError:
        raise ValueError("it is nested deeper than any file of farwrite bench") from None
    if not isinstance(facts, dict) or "benchmark" not in facts:
        raise ValueError(
            "it has no key 'benchmark'; it is no file of farwrite bench, or of an older version"
        )
    benchmark = facts["benchmark"]
    known = benchmarks().get(benchmark) if isinstance(benchmark, str) else None
    if known is None:
        raise ValueError(
            f"the benchmark {benchmark!r} is unknown; known are {', '.join(benchmarks())}"
        )
    try:
        _check_facts(facts)
        return run_of(path.name, facts if facts.get("date") else {**facts, "date": _changed(path)})
    except KeyError as error:
        raise ValueError(
            f"it has no key {error}, which a result of bench {benchmark} has; run it again"
        ) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"it is not what bench {benchmark} writes ({type(error).__name__}: {error}); run it"
            " again"
        ) from error


def run_of(file: str, facts: Facts) -> Run:
    """Draw what a result adds to the page; `file` names it there."""
    benchmark = benchmarks()[facts["benchmark"]].benchmark
    return Run(
        file=file,
        benchmark=facts["benchmark"],
        facts=facts,
        date=str(facts["date"]),
        figures=benchmark.figures(facts),
        tables=benchmark.filled_tables(facts),
        cards=benchmark.key_figures(facts),
        gains=benchmark.all_gains(facts),
    )


def _check_facts(facts: Facts) -> None:
    """Raise KeyError or TypeError if a fact of every benchmark is missing or has a wrong type."""
    for name, kind in (("machine", dict), ("load", list), ("notes", list)):
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name} is no {kind.__name__}")
    if "rows" in facts and not facts["rows"]:
        raise ValueError("it has no rows")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it has the number {name}, which no benchmark measures")


def _changed(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).astimezone().isoformat(timespec="seconds")
