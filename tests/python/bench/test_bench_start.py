"""A small run of ``farwrite bench start``. No test asserts a time."""

from __future__ import annotations

from pathlib import Path

from bench_command import bench, result
from farwrite_bench.start import CASES, _row


def test_every_program_is_started_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "start.json"
    done = bench("start", "--rounds", "1", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = {row["start"]: row for row in result(path, "start")["rows"]}
    assert {case.name for case in CASES} <= set(rows)
    assert all(row["seconds"] > 0 for row in rows.values())
    assert rows["import farwrite"]["beside"] == "import numpy"
    assert rows["farwrite --help"]["target"] == "<=0.15"
    assert "added s" in done.stdout


def test_what_is_added_is_the_median_of_the_rounds_differences() -> None:
    case = next(case for case in CASES if case.name == "import farwrite")
    row = _row(case, {"import numpy": [0.2, 0.4, 0.1], "import farwrite": [0.25, 0.41, 0.9]})
    assert (row["seconds"], row["added_s"], row["met"]) == (0.41, 0.05, True)
