"""An exception at any bytecode of any call leaves nothing behind, and the call works again."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from matrix.program import command

PROGRAM = Path(__file__).with_name("opcodes_program.py")

# One step in so many: some in each run of the check, and all in a few nights.
SHARES = [100, pytest.param(4, marks=pytest.mark.nightly)]


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("every", SHARES)
def test_an_exception_at_any_bytecode_of_any_call_leaves_nothing_behind(
    every: int, fabric: str
) -> None:
    seed = random.randrange(1 << 30) if every < 100 else 1
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", PROGRAM, fabric, str(every), str(seed)],
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[1]), "FARWRITE_LOG": "error"},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    under_way = "\n".join(ended.stderr.splitlines()[-40:])
    names = re.findall(r"^(\w+\.\w[\w ]*)$", ended.stderr, re.MULTILINE)
    alone = command(PROGRAM.name, fabric, "1", str(seed), *names[-1:])
    assert (ended.returncode, ended.stdout) == (0, "survivor fine\n"), (
        f"{under_way}\nthe last one alone: {alone}"
    )
