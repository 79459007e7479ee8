"""What the tests of failing tasks share."""

from __future__ import annotations

import signal
import subprocess
import threading
from typing import Any


def balanced(stats: dict[str, Any]) -> bool:
    return bool(
        stats["leases_out"] == stats["leases_returned"]
        and stats["waiting_tensors"] == 0
        and stats["held_views"] == 0
        and stats["fetches"] == 0
    )


def wait_for(client: subprocess.Popen[str], line: str, seconds: float = 100) -> None:
    """Read until the client says `line`. If it does not in time, its stacks are in the error."""
    assert client.stdout is not None and client.stderr is not None
    overdue = threading.Timer(seconds, client.send_signal, [signal.SIGABRT])
    overdue.start()
    try:
        for said in client.stdout:
            if said.strip() == line:
                return
    finally:
        overdue.cancel()
    raise AssertionError(f"the client ended before {line!r}:\n{client.stderr.read()[-6000:]}")


def go_on(client: subprocess.Popen[str]) -> None:
    """Send the line that the client waits for."""
    assert client.stdin is not None
    client.stdin.write("\n")
    client.stdin.flush()
