"""`make nightly`: a lane that fails or hangs stops no other one, and the table names it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import nightly
from nightly import Lane

RESULTS = """<testsuites><testsuite>
<testcase classname="a" name="good"/>
<testcase classname="a" name="bad"><failure message="no"/></testcase>
<testcase classname="a" name="left"><skipped message="no device"/></testcase>
</testsuite></testsuites>"""


def alive(process: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def test_every_lane_runs_and_the_table_names_those_that_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "result.xml").write_text(RESULTS)
    (tmp_path / "cut.xml").write_text(RESULTS[:-20])
    write = "mkdir -p build/release/results && cp {0}.xml build/release/results/{0}.xml"
    lanes = (
        Lane("breaks", 60, "echo about to break; false; echo not reached"),
        Lane("tests", 60, write.format("result") + "; exit 1"),
        Lane("cut", 60, write.format("cut")),
        Lane("good", 60, "echo fine"),
    )
    assert nightly.run_all(lanes, tmp_path / "logs", tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    printed = lines[lines.index("[4/4] good: echo fine") + 2 :]
    assert [line.split()[0] for line in printed[:5]] == ["breaks", "tests", "cut", "good", "total"]
    verdicts = [line.split(" passed  ")[1] for line in printed[:5]]
    assert verdicts == [
        "failed with status 1",
        "1 of 2 tests failed",
        "1 of 1 tests failed",
        "ok",
        "3 of 4 lanes failed",
    ]
    assert printed[5:] == [
        f"breaks: see {tmp_path}/logs/breaks.log",
        f"tests: see {tmp_path}/logs/tests.log",
        "  a.bad",
        f"cut: see {tmp_path}/logs/cut.log",
        f"  {tmp_path}/build/release/results/cut.xml: cut off",
    ]
    assert (tmp_path / "logs/breaks.log").read_text() == "about to break\n"
    facts = json.loads((tmp_path / "logs/nightly.json").read_text())
    assert [one["lane"] for one in facts if not one["ok"]] == ["breaks", "tests", "cut"]
    assert facts[1]["failed"] == ["a.bad"]


def test_a_lane_over_its_bound_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "GRACE_SECONDS", 0.1)
    deaf = "trap '' INT; sleep 600 & echo $! $$ >started; wait; wait"
    lanes = (Lane("hangs", 1, deaf), Lane("next", 60, "true"))
    assert nightly.run_all(lanes, tmp_path, tmp_path) == 1
    shown = capsys.readouterr().out
    assert "killed after 2 s" in shown
    assert "1 of 2 lanes failed" in shown
    started = [int(word) for word in (tmp_path / "started").read_text().split()]
    give_up = time.monotonic() + 10
    while any(map(alive, started)) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not any(map(alive, started))


def test_what_a_lane_leaves_running_ends_with_it(tmp_path: Path) -> None:
    lane = Lane("leaves", 60, "sleep 600 & echo $! >started")
    assert nightly.run_all([lane], tmp_path, tmp_path) == 0
    started = int((tmp_path / "started").read_text())
    give_up = time.monotonic() + 10
    while alive(started) and time.monotonic() < give_up:
        time.sleep(0.01)
    assert not alive(started)


def test_the_table_is_followed_by_what_no_random_program_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = "7 programs went well and 1 failed; the next seed is 9\n| boxes | write | kill |"
    says = f"echo 'seed 3 failed\n{end}'"
    nightly.run_all([Lane(nightly.PROGRAMS, 60, says)], tmp_path / "logs", tmp_path)
    assert capsys.readouterr().out.endswith(f"  ok\n{end}\n")


def test_results_of_an_earlier_run_are_not_counted(tmp_path: Path) -> None:
    results = tmp_path / "build" / "asan" / "results"
    results.mkdir(parents=True)
    (results / "unit.xml").write_text(RESULTS)
    os.utime(results / "unit.xml", (1, 1))
    ran = nightly.run(Lane("good", 60, "true"), tmp_path, tmp_path)
    assert (ran.verdict, ran.passed) == ("ok", 0)


def test_the_budgets_fit_in_the_night_and_each_lane_has_a_log_of_its_own() -> None:
    assert sum(lane.budget for lane in nightly.LANES) <= 3.5 * 3600
    names = [lane.name for lane in nightly.LANES]
    assert len(set(names)) == len(names)
