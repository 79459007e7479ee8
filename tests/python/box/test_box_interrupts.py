"""Ctrl-C ends what waits for a box."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

CALLS = ["segment.wait(1)", "segment.read(min_version=1)", "box.attach('nothing', timeout=None)"]


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_ends_a_call_that_waits(call: str) -> None:
    program = f"""
        import os, signal, threading
        import farwrite as fw
        with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as box:
            segment = box.create("w", 4, "float32")
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                {call}
            except KeyboardInterrupt:
                print("interrupted", segment.fill(1))
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("interrupted 1\n", "")
