"""Every public entry in a forked child: it raises `Forked` or works, and never crashes or hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_every_entry_works_or_is_refused_in_a_forked_child() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            Path(__file__).parent / "fork_entries.py",
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "parent fine\n")
