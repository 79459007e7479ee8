"""Counters of a box's servers and clients. Every object is a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite.metrics.counter import counters


@counters
@dataclass(frozen=True)
class ClientStats:
    """Counts of a client since it connected, over all its segments."""

    reads: int
    read_retries: int
    leased_reads: int
    changes: int
    staged_bytes: int
    leases: int


@counters
@dataclass(frozen=True)
class ServerStats:
    """Counts of a server since it started."""

    clients: int
    segments: int
    segment_bytes: int
    changes: int
    bytes_changed: int
    refused: int
    switches: int
    copies_for_leases: int
    leases: int
    leases_granted: int
    snapshots: int
    snapshot_failures: int
