"""Ctrl-C ends what waits for a box."""

from __future__ import annotations

import textwrap

from warm_python import run_python

PROGRAM = """
    import os, signal, threading
    import farwrite as fw

    with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as box:
        segment = box.create("w", 4, "float32")
        for call in (
            lambda: segment.wait(1),
            lambda: segment.read(min_version=1),
            lambda: box.attach("nothing", timeout=None),
            lambda: box.event("epoch").wait(),
        ):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                call()
            except KeyboardInterrupt:
                print("interrupted")
        print(segment.fill(1))
"""


def test_a_signal_ends_each_call_that_waits() -> None:
    ended = run_python("-c", textwrap.dedent(PROGRAM), seconds=60)
    assert (ended.stdout, ended.stderr) == ("interrupted\n" * 4 + "1\n", "")
