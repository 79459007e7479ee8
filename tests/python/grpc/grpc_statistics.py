"""What a program under Farwrite writes at its end, where FARWRITE_GRPC_STATS names a file."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "FARWRITE_GRPC_STATS"


@dataclass
class Statistics:
    """The sum over the processes that a program consists of."""

    upgraded: int = 0
    stayed: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    received_bytes: int = 0
    borrowed_bytes: int = 0
    staged_bytes: int = 0


def read_statistics(path: Path) -> Statistics | None:
    """Add up the lines of a file, one per process; None if there is no such file."""
    if not path.exists():
        return None
    total = Statistics()
    for line in path.read_text().splitlines():
        process = json.loads(line)
        total.upgraded += process["upgraded"]
        total.stayed.update(process["stayed"])
        total.sent_bytes += process["sent_bytes"]
        total.received_bytes += process["received_bytes"]
        total.borrowed_bytes += process["borrowed_bytes"]
        total.staged_bytes += process["staged_bytes"]
    return total
