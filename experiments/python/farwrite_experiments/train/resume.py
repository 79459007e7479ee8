"""Continues a long run from the rows that its file has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition
from farwrite_experiments.train.plan import Case, TrainPlan, Way
from farwrite_experiments.train.rows import CASE, Row, fabric_of


@dataclass(frozen=True)
class Earlier:
    """What the file of an interrupted run has."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def earlier(path: Path | None, settings: Mapping[str, Any], machine: Mapping[str, Any]) -> Earlier:
    """Read what an earlier run with the same settings on the same machine measured.

    Raises
    ------
    FailedPrecondition
        If the file is of another run, or cannot be read.
    """
    facts = earlier_facts("train", path, settings, machine, ("rows", "notes"))
    return Earlier() if facts is None else Earlier(facts["rows"], facts["notes"])


def earlier_facts(
    benchmark: str,
    path: Path | None,
    settings: Mapping[str, Any],
    machine: Mapping[str, Any],
    keys: Sequence[str],
) -> dict[str, Any] | None:
    """Read the file of an earlier run of a benchmark; None if there is no file.

    Raises
    ------
    FailedPrecondition
        If the file has not all `keys`, or is from a run with other settings or on another machine.
    """
    if path is None or not path.exists():
        return None
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        theirs = [facts[key] for key in ("settings", "machine", *keys)][:2]
    except (ValueError, KeyError, TypeError) as error:
        raise FailedPrecondition(
            f"bench {benchmark}: {path} is not a whole result of this benchmark ({error!r}); name"
            " another file in --json, or delete this one"
        ) from error
    ours = json.loads(json.dumps([settings, machine]))
    for kind, mine, other in zip(("setting", "machine or build"), ours, theirs, strict=True):
        if mine != other:
            raise FailedPrecondition(
                f"bench {benchmark}: {path} is from a run with another {kind}, so this run cannot"
                " continue it; name another file in --json, or delete this one"
            )
    return facts


def remaining(plan: TrainPlan, rows: Sequence[Row]) -> TrainPlan:
    """Leave out the groups that `rows` have for all of their ways."""
    found = {_name(row) for row in rows}
    groups = [
        group
        for group in plan.groups
        if not all(_of(group.case, way) in found for way in group.ways)
    ]
    return replace(plan, groups=tuple(groups))


def repeats(row: Row, rows: Sequence[Row]) -> bool:
    """Whether `rows` have this case and way already, from an earlier group."""
    return _name(row) in {_name(each) for each in rows}


def _of(case: Case, way: Way) -> tuple[Any, ...]:
    return (*(getattr(case, key) for key in CASE), way.transport.key, fabric_of(way))


def _name(row: Row) -> tuple[Any, ...]:
    return (*(row[key] for key in CASE), row["transport"], row["fabric"])
