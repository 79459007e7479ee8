"""Compiles the plug-in before several processes load it at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.control import end_of
from farwrite_bench.cluster.process import QUIET


def make_ready(log: Path) -> None:
    """Import the plug-in in another process, which compiles it if necessary.

    Raises
    ------
    FailedPrecondition
        If the plug-in cannot be loaded. The message has the end of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", "import farwrite.tensorflow"],
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if ended.returncode != 0:
        raise FailedPrecondition(f"Farwrite's TensorFlow plug-in cannot be loaded; {end_of(log)}")
