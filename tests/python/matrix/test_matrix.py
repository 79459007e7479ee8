"""Every call under every fault ends as its row of the table says, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from matrix.calls import FAULTS

PROGRAM = Path(__file__).parent / "program.py"


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "forked"])
def test_every_call_ends_as_its_row_says(fault: str, fabric: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", PROGRAM, fabric, fault],
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[1]), "FARWRITE_LOG": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "survivor fine\n")
