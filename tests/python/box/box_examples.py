"""Runs the examples of the box as a user does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "box"


def run_example(name: str, seconds: float = 240) -> str:
    """Run one of examples/box, and return what it prints. It ends with status 0 in time."""
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLES / name)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its workers as well
            process.communicate()
    assert process.returncode == 0, f"{output}\n{errors[-3000:]}"
    return output


def accuracy(output: str) -> float:
    """Return the per cent that an example says its model recognizes."""
    found = re.search(r"test accuracy: ([\d.]+)%", output)
    assert found is not None, output
    return float(found[1])
