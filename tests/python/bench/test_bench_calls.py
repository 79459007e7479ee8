"""A small run of ``farwrite bench calls``. No test asserts a time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench_command import bench, planned, result
from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite_bench import _native
from farwrite_bench.calls.benchmark import BENCHMARK, CALLS, THREAD_BYTES, gil_enabled
from farwrite_bench.calls.world import World


def test_every_call_is_made_from_both_languages_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    done = bench("calls", "--rounds", "1", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = result(path, "calls")["rows"]
    assert [row["call"] for row in rows] == [*CALLS]
    assert all(row["native_us"] > 0 and row["python_us"] > 0 for row in rows)
    threads = result(path, "calls")["threads"]
    ways = {(nbytes, way) for nbytes in THREAD_BYTES for way in ("Python", "C++")}
    assert {(row["bytes"], row["way"]) for row in threads} == ways
    free = not gil_enabled()
    assert all((row["target"] is None) == (row["way"] == "Python" and not free) for row in threads)


def test_both_languages_make_the_same_calls() -> None:
    native = _native.Calls()
    with World() as world:
        assert world.rounds.keys() == set(native.names()) == CALLS.keys()
    with pytest.raises(InvalidArgument, match="no call is named 'jump'"):
        native.seconds("jump", 1)


def test_more_threads_than_channels_or_bytes_than_memory_are_refused() -> None:
    native = _native.Threads(2, 4096)
    assert native.seconds(4096, 1, 2) > 0
    for nbytes, count in ((4096, 3), (4097, 1), (8, 0)):
        with pytest.raises(InvalidArgument, match=f"{count} threads cannot write {nbytes} bytes"):
            native.seconds(nbytes, 1, count)


def test_without_valgrind_the_count_of_instructions_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(FailedPrecondition, match="apt install valgrind"):
        planned(BENCHMARK, "--instructions")
