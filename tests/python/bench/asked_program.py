"""What the tests of `ForkedTask` run in the child."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing.connection import Connection


def main(control: Connection) -> None:
    """Answer with facts of this process; fail, end, be killed or busy for minutes, if asked to."""
    print("begun", flush=True)
    while True:
        order = control.recv()
        if order == "end":
            os._exit(0)
        if order == "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if order == "fail":
            raise ValueError("as asked")
        control.send((os.getpid(), os.environ.get("FORKED_TEST"), "tensorflow" in sys.modules))
        if order == "be busy":
            time.sleep(300)
