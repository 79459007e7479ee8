"""Continues a long run from the rows that its file has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition
from farwrite_bench.train.plan import Case, TrainPlan, Way
from farwrite_bench.train.rows import CASE, Row, fabric_of


def rows_of(path: Path | None, settings: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an earlier run with the same settings; none without a file.

    Raises
    ------
    FailedPrecondition
        If the file has other settings, or is none of this benchmark.
    """
    if path is None or not path.exists():
        return []
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        known = facts["settings"], facts["rows"]
    except (ValueError, KeyError, TypeError):
        known = None, []
    if known[0] != json.loads(json.dumps(settings)):
        raise FailedPrecondition(
            f"bench train: {path} is not from a run with these settings, so this run cannot"
            " continue it; name another file in --json, or delete this one"
        )
    rows: list[Row] = known[1]
    return rows


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
