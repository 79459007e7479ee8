"""The soak of ``make soak``, in small: eight processes, and nothing grows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[1] / "soak" / "soak.py"
BOX = SOAK.with_name("box.py")


@pytest.mark.timeout(330)
def test_a_ring_of_processes_loses_nothing_and_grows_nowhere(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    command = [sys.executable, str(SOAK), "--transfers", "24000", "--quiet", "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(report.read_text())
    assert result["transfers"] == 24_000
    assert {fabric for process in result["processes"] for fabric in process["by"]} == {"shm", "tcp"}
    assert all(process["end"]["leases"] == 0 for process in result["processes"])


@pytest.mark.timeout(330)
def test_small_requests_to_a_box_grow_nowhere(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    command = [sys.executable, str(BOX), "--operations", "6000", "--json", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(report.read_text())["grown"] == []
