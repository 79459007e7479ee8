"""Runs ``farwrite bench`` as a user does."""

from __future__ import annotations

import subprocess
from pathlib import Path

from farwrite_bench.report.files import read_file
from farwrite_bench.report.parts import Facts
from warm_python import run_python


def bench(*words: str, seconds: float = 110) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end, with its output."""
    return run_python("-m", "farwrite", "bench", *words, seconds=seconds)


def result(path: Path, benchmark: str) -> Facts:
    """Return what a benchmark wrote with ``--json``; ``farwrite report`` must show it."""
    run = read_file(path)
    assert run.benchmark == benchmark
    return run.facts
