"""A long run of farwrite bench train continues from the rows that its file has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from farwrite.errors import FailedPrecondition
from farwrite_experiments.train.plan import (
    EMULATED,
    ONE_PROCESS,
    STOCK,
    TRANSPORTS,
    Case,
    Group,
    ways,
)
from farwrite_experiments.train.resume import earlier, remaining, repeats
from farwrite_experiments.train.rows import fabric_of, identity

OURS = ways(["farwrite"], ["shm"])[-1]
STAGED = ways(["staged"], ["shm"])[-1]
SETTINGS: dict[str, Any] = {"rounds": 5, "workers": [2]}
MACHINE = {"farwrite": "0.1.0", "cpus": 2}


def _rows(group: Group) -> list[dict[str, Any]]:
    return [identity(group.case, way) for way in group.ways]


def test_groups_whose_ways_all_have_rows_are_left_out() -> None:
    case, larger = Case("gru", EMULATED, 1), Case("gru", EMULATED, 8)
    groups = tuple(
        Group(each, (ONE_PROCESS, STOCK, way)) for each in (case, larger) for way in (OURS, STAGED)
    )
    assert remaining(groups, []) == groups
    done = [row for group in groups[:2] for row in _rows(group)]
    assert remaining(groups, done) == groups[2:]
    assert remaining(groups, _rows(groups[0])) == groups[1:]
    # A row of another batch, or of only one way, finishes nothing.
    assert remaining(groups, _rows(groups[0])[:2]) == groups


def test_what_a_later_group_measures_again_is_a_repetition() -> None:
    first, second = (
        Group(Case("gru", EMULATED, 1), (ONE_PROCESS, STOCK, way)) for way in (OURS, STAGED)
    )
    known = _rows(first)
    assert [repeats(row, known) for row in _rows(second)] == [True, True, False]
    assert not any(repeats(row, []) for row in _rows(second))


def _facts(**other: Any) -> dict[str, Any]:
    return {"settings": SETTINGS, "machine": MACHINE, "notes": ["busy"], "rows": [], **other}


def _earlier(file: Path | None, settings: dict[str, Any]) -> dict[str, Any]:
    return earlier("train", file, settings, MACHINE, ("rows", "notes"))


def test_a_file_of_the_same_settings_gives_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "train.json"
    assert not _earlier(None, SETTINGS) and not _earlier(file, SETTINGS)
    rows = _rows(Group(Case("gru", EMULATED, 1), (ONE_PROCESS,)))
    file.write_text(json.dumps(_facts(rows=rows)))
    found = _earlier(file, {**SETTINGS, "workers": (2,)})
    assert found == {"rows": rows, "notes": ["busy"]}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not a whole result"),
        ("[]", "not a whole result"),
        ("{}", "not a whole result"),
        (json.dumps(_facts(settings={"rounds": 6})), "another setting"),
        (json.dumps(_facts(machine={**MACHINE, "farwrite": "0.0.9"})), "another machine or build"),
    ],
    ids=["cut", "list", "empty", "settings", "machine"],
)
def test_another_file_is_refused_and_kept(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "train.json"
    file.write_text(text)
    with pytest.raises(FailedPrecondition, match=f"(?s){what}.*name another file in --json"):
        _earlier(file, SETTINGS)
    assert file.read_text() == text


def test_every_transport_has_a_fabric_in_its_rows() -> None:
    found = {way.key: fabric_of(way) for way in ways(list(TRANSPORTS), ["shm"])}
    assert (found["local"], found["grpc"], found["farwrite shm"]) == ("none", "tcp", "shm")
