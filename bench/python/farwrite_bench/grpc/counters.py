"""Reads what Farwrite's component reports about a process, and refuses a row without it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import FailedPrecondition


@dataclass(frozen=True)
class Counters:
    """The counters of one process."""

    upgraded: int
    """Connections that Farwrite carried."""
    stayed: dict[str, int]
    """Connections that stayed with their socket, by reason."""
    staged_bytes: int
    """Bytes that were copied on their way in this process."""


def read_counters(file: Path, pid: int, process: str) -> Counters:
    """Return the counters of process `pid`.

    Raises
    ------
    FailedPrecondition
        If there are none, or not every connection of the process was upgraded. A row of such a turn would
        show something other than Farwrite.
    """
    for line in _lines(file):
        found = json.loads(line)
        if found["pid"] == pid:
            counters = Counters(found["upgraded"], found["stayed"], found["staged_bytes"])
            break
    else:
        raise FailedPrecondition(
            f"bench grpc: {process} wrote no counters of Farwrite, so its bytes"
            " did not go over Farwrite; check that `farwrite run --grpc` works here"
        )
    if counters.upgraded < 1 or counters.stayed:
        reasons = ", ".join(f"{reason} ({n})" for reason, n in counters.stayed.items())
        raise FailedPrecondition(
            f"bench grpc: Farwrite carried {counters.upgraded} connections of {process}, and its"
            f" other bytes went elsewhere; connections that stayed: {reasons or 'none'}"
        )
    return counters


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
