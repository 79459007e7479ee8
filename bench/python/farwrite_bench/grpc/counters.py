"""Reads what Farwrite's component reports about a process, and refuses a row without it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from farwrite.errors import FailedPrecondition


@dataclass(frozen=True)
class Counters:
    """The counters of one process."""

    upgraded: int
    """Connections that Farwrite carried."""
    stayed: dict[str, int]
    """Connections that stayed with their socket, by reason."""
    sent_bytes: int
    """Bytes that gRPC sent, with its own headers."""
    staged_bytes: int
    """Copied to where the peer can read them."""
    borrowed_bytes: int
    """Copied because gRPC has no reference count of them."""
    message_bytes: int
    """Copied into a message, and by the peer out of it."""
    read_bytes: int
    """Received by a one-sided read of the peer's memory; on one host the processor copies them."""

    def copied_bytes(self, one_host: bool) -> int:
        """Return the bytes that Farwrite, not the kernel, copied for this process.

        Parameters
        ----------
        one_host : bool
            The fabric maps the peer's memory, so that a read is a copy.
        """
        by_sender = self.staged_bytes + self.borrowed_bytes
        return by_sender + 2 * self.message_bytes + (self.read_bytes if one_host else 0)


def read_counters(file: Path, pid: int | None, process: str) -> Counters:
    """Return the counters of process `pid`; without one, of the first process that wrote them.

    Raises
    ------
    FailedPrecondition
        If there are none, or a connection of the process was not upgraded. The row of such a turn
        would show something other than Farwrite.
    """
    for line in _lines(file):
        found = json.loads(line)
        if pid in (None, found["pid"]):
            counters = Counters(**{each.name: found[each.name] for each in fields(Counters)})
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
