"""What the tests of failing tasks share."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def eventually(true: Callable[[], bool], seconds: float = 20) -> None:
    give_up = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def balanced(stats: dict[str, Any]) -> bool:
    return bool(
        stats["leases_out"] == stats["leases_returned"]
        and stats["waiting_tensors"] == 0
        and stats["held_views"] == 0
        and stats["fetches"] == 0
    )


def wait_for(client: subprocess.Popen[str], line: str) -> None:
    assert client.stdout is not None
    for said in client.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"the client ended:\n{client.stderr.read()[-3000:]}")  # type: ignore
