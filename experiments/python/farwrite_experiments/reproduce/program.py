"""Runs one program to its end, so that an interruption leaves it the time to clean up."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import IO

from farwrite_bench.cluster.child import receive_at_parents_end

CLEAN_UP_SECONDS = 30.0
"""How long an interrupted program may take to end its processes and to remove its files."""


def run_to_end(words: Sequence[str], output: IO[str]) -> int:
    """Run a program that writes to `output`, and return its exit status.

    The program receives one SIGINT if a KeyboardInterrupt ends the wait for it, or if this process
    ends. A terminal's Ctrl-C does not reach it, because it has a session of its own. After a
    KeyboardInterrupt it is killed when it has not ended in `CLEAN_UP_SECONDS`, or at a second
    KeyboardInterrupt.
    """
    program = subprocess.Popen(
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=output,
        start_new_session=True,
        preexec_fn=_prepare,
    )
    try:
        return program.wait()
    except KeyboardInterrupt:
        program.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(CLEAN_UP_SECONDS)
        raise
    finally:
        if program.returncode is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


def _prepare() -> None:
    # A shell starts a script's background jobs with SIGINT ignored, which a program inherits.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    receive_at_parents_end(signal.SIGINT)
