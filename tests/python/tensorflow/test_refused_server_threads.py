"""A server that may start no further thread of Farwrite's says so, and another one is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

from cluster import FARWRITE, PROGRAMS, QUIET

from matrix import injection


def test_a_server_says_that_a_thread_was_refused_and_the_next_one_serves(tmp_path: Path) -> None:
    program = [sys.executable, str(PROGRAMS / "refused_threads.py"), FARWRITE, "{}"]
    preload = mock.patch.dict(os.environ, QUIET, LD_PRELOAD=str(injection.library()))
    with injection.orders(), preload:
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=240, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    # Each of the device's and of the plug-in's own.
    assert len(result["errors"]) >= 4
    for kind, message in result["errors"]:
        assert kind == "ResourceExhaustedError", message
        assert "no thread could be started" in message and "ulimit -u" in message
    assert result["value"] == 6.0
