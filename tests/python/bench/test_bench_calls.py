"""A small run of ``farwrite bench calls``. No test asserts a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench_command import bench, planned, result
from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite_bench import _native
from farwrite_bench.calls.benchmark import BENCHMARK, CALLS
from farwrite_bench.calls.world import World


def test_every_call_is_made_from_both_languages_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    done = bench("calls", "--rounds", "1", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = result(path, "calls")["rows"]
    assert [row["call"] for row in rows] == [*CALLS]
    assert all(row["native_us"] > 0 and row["python_us"] > 0 for row in rows)


def test_both_languages_make_the_same_calls() -> None:
    native = _native.Calls()
    with World() as world:
        assert world.rounds.keys() == set(native.names()) == CALLS.keys()
    with pytest.raises(InvalidArgument, match="no call is named 'jump'"):
        native.seconds("jump", 1)


def test_without_valgrind_the_count_of_instructions_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(FailedPrecondition, match="apt install valgrind"):
        planned(BENCHMARK, "--instructions")
