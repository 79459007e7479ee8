"""Runs ``farwrite bench`` as a user does."""

from __future__ import annotations

import subprocess
import sys


def bench(*words: str, seconds: float = 110) -> subprocess.CompletedProcess[str]:
    """Run a benchmark to its end, with its output."""
    return subprocess.run(
        [sys.executable, "-m", "farwrite", "bench", *words],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
