"""Continues a long run from what its file has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition
from farwrite_experiments.train.plan import Group
from farwrite_experiments.train.rows import IDENTITY, Row, identity


def earlier(
    benchmark: str,
    path: Path | None,
    settings: Mapping[str, Any],
    machine: Mapping[str, Any],
    keys: Sequence[str],
) -> dict[str, Any]:
    """Read these keys of the file of an earlier run; nothing if there is no file.

    Raises
    ------
    FailedPrecondition
        If the file has not all `keys`, or is from a run with other settings or on another machine.
    """
    if path is None or not path.exists():
        return {}
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        theirs = facts["settings"], facts["machine"]
        found = {key: facts[key] for key in keys}
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
    return found


def remaining(groups: Sequence[Group], rows: Sequence[Row]) -> tuple[Group, ...]:
    """Leave out the groups that `rows` have for all of their ways."""
    return tuple(
        group
        for group in groups
        if not all(repeats(identity(group.case, way), rows) for way in group.ways)
    )


def repeats(row: Row, rows: Sequence[Row]) -> bool:
    """Whether `rows` have this case and way already, from an earlier group."""
    return any(all(each[key] == row[key] for key in IDENTITY) for each in rows)
