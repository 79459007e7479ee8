"""A forked child outlives its parent: what it reads in a peer's memory stays, then returns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import farwrite as fw
from processes import wait_until

SIZE = 100_000

PROGRAM = """
    import os, sys
    import farwrite as fw
    device = fw.Device()
    channel = device.connect(sys.argv[1])
    array = channel.lookup("outbox").alias()
    if os.fork() == 0:
        os.write(1, b"forked\\n")
        os.read(0, 1)
        os.write(1, b"%d\\n" % array.sum())
        os._exit(0)
    {before}
    os.write(1, b"ready\\n")
    os.kill(os.getpid(), 19)
"""

BEFORE = {
    "it drops the array": "del array",
    "it closes the channel": "channel.close()",
    "it closes the device": "device.close()",
    "it does nothing": "pass",
}


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE.keys())
def test_an_alias_stays_when_the_parent_dies_after(before: str) -> None:
    with fw.Device() as device:
        outbox = device.publish("outbox", device.allocate(SIZE))
        outbox.array[:] = 3
        program = textwrap.dedent(PROGRAM).format(before=before)
        with subprocess.Popen(
            [sys.executable, "-c", program, device.endpoint],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as parent:
            assert parent.stdin is not None
            assert parent.stdout is not None
            channel = device.accept(20)
            try:
                assert {parent.stdout.readline(), parent.stdout.readline()} == {
                    "forked\n", "ready\n"
                }  # fmt: skip
                device.unpublish("outbox")
                del outbox
                os.kill(parent.pid, signal.SIGKILL)
                parent.wait()
                wait_until(lambda: channel.peer_state is not fw.PeerState.ALIVE)
                time.sleep(0.1)  # the device may let go of the memory now
                for _ in range(50):
                    device.allocate(SIZE).array[:] = 9
                assert device.stats().leases_held_by_peers == 1
                os.write(parent.stdin.fileno(), b"x")
                assert parent.stdout.readline() == f"{3 * SIZE}\n"
            finally:
                parent.kill()
            wait_until(lambda: device.stats().leases_held_by_peers == 0)
            channel.close()
