"""farwrite reproduce: its parts, and how it goes on after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any

import pytest
from result_files import step

from farwrite.cli import parser
from farwrite.errors import FailedPrecondition
from farwrite_experiments import reproduce
from farwrite_experiments.reproduce import PARTS

CHOSEN = [part.name for part in PARTS[:3]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the benchmarks by a result that is made up; return the names of the parts that ran.

    A part whose file has the folder "fails" above it fails.
    """
    names: list[str] = []

    def run(words: list[str], output: IO[str]) -> int:
        del output
        file = Path(words[-1])
        names.append(file.stem)
        if (file.parent.parent / f"{file.stem}.fails").exists():
            file.write_text("{")
            return 1
        file.write_text(json.dumps(step()))
        return 0

    monkeypatch.setattr(reproduce, "run_to_end", run)
    return names


def run(folder: Path, *words: str) -> int:
    """Run the command on its first three parts."""
    parts = [word for name in CHOSEN for word in ("--part", name)]
    arguments = parser().parse_args(["reproduce", "--output", str(folder), *parts, *words])
    return int(arguments.run(arguments))


def test_all_parts_run_in_order_and_end_with_the_page(tmp_path: Path, ran: list[str]) -> None:
    assert run(tmp_path, "--quick") == 0
    assert ran == CHOSEN
    assert {f"{name}.json" for name in CHOSEN} <= {each.name for each in tmp_path.iterdir()}
    assert "left out" not in (tmp_path / "report.html").read_text()
    assert (tmp_path / "report.svg").exists()


def test_parts_that_have_finished_are_kept(
    tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path)
    (tmp_path / f"{CHOSEN[1]}.json").unlink()
    (tmp_path / f"{CHOSEN[2]}.json").write_text("{")
    ran.clear()
    assert run(tmp_path) == 0
    assert ran == CHOSEN[1:], "also the one whose file is cut short"
    assert "1 of 3 parts have finished before" in capsys.readouterr().out


def test_a_part_that_fails_is_named_and_runs_again(
    tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"{CHOSEN[0]}.fails").touch()
    assert run(tmp_path) == 1
    assert ran == CHOSEN
    assert (
        f"missing from {tmp_path} in whole or in part: {CHOSEN[0]}; run" in capsys.readouterr().err
    )
    assert CHOSEN[1] in (tmp_path / "report.html").read_text()
    assert not (tmp_path / f"{CHOSEN[0]}.json").exists()
    (tmp_path / f"{CHOSEN[0]}.fails").unlink()
    ran.clear()
    assert run(tmp_path) == 0
    assert ran == CHOSEN[:1]


def test_a_part_with_rows_that_failed_is_on_the_page_and_runs_again(
    tmp_path: Path,
    ran: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, failed = step(), {"kind": "v1", "way": "grpc", "error": "the client ended early"}

    def fail(words: list[str], output: IO[str]) -> int:
        file = Path(words[-1])
        facts = {**whole, "rows": [*whole["rows"], failed], "finished": file.stem != CHOSEN[2]}
        file.write_text(json.dumps(facts))
        return 1

    with monkeypatch.context() as changed:
        changed.setattr(reproduce, "run_to_end", fail)
        assert run(tmp_path) == 1
    assert f"part: {', '.join(CHOSEN)}; run the same" in capsys.readouterr().err
    kept = [(tmp_path / f"{name}.json").exists() for name in CHOSEN]
    assert kept == [True, True, False], "the last one was interrupted"
    assert "failed: the client ended early" in (tmp_path / "report.html").read_text()
    assert run(tmp_path) == 0
    assert ran == CHOSEN
    assert "failed: the client" not in (tmp_path / "report.html").read_text()


def test_a_run_whose_parts_all_fail_names_them_and_makes_no_page(
    tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in CHOSEN:
        (tmp_path / f"{name}.fails").touch()
    assert run(tmp_path) == 1
    assert ran == CHOSEN
    assert f"{', '.join(CHOSEN)}; run the same farwrite reproduce" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_short_and_long_runs_are_not_mixed(tmp_path: Path, ran: list[str]) -> None:
    run(tmp_path, "--quick")
    with pytest.raises(FailedPrecondition, match="results of a quick run"):
        run(tmp_path)
    other = tmp_path / "other"
    run(other)
    with pytest.raises(FailedPrecondition, match="results of a full run"):
        run(other, "--quick")
    assert len(ran) == 2 * len(CHOSEN)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_words_of_a_part_are_a_command(part: Any, quick: bool) -> None:
    words = [*part.command(quick=quick), "--json", "x.json"]
    arguments = parser().parse_args(words)
    # The sizes are counted and not timed, so they have no short run.
    assert part.name == "sizes" or arguments.quick == quick


def test_no_part_takes_longer_than_ten_minutes_and_a_quick_run_less_than_twenty() -> None:
    assert max(part.expected(quick=False) for part in PARTS) <= 600
    assert sum(part.expected(quick=True) for part in PARTS) < 20 * 60
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert reproduce.OUTPUT != reproduce.QUICK_OUTPUT
