"""Counters of a box's servers and clients. Every object is a snapshot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClientStats:
    """Counts of a client since it connected, over all its segments."""

    reads: int
    read_retries: int
    """Segments and chunks that were read again, because they changed meanwhile."""
    leased_reads: int
    """Reads for which the server pinned a buffer, after failed tries."""
    changes: int
    """Changes posted."""
    staged_bytes: int
    """Bytes copied before the server read them. Arrays from `Client.array` need no such copy."""
    leases: int


@dataclass(frozen=True)
class ServerStats:
    """Counts of a server since it started."""

    clients: int
    """Clients connected now."""
    segments: int
    """Segments now."""
    segment_bytes: int
    """Bytes of all their buffers, now."""
    changes: int
    """Changes applied."""
    bytes_changed: int
    """Bytes changed by those."""
    refused: int
    """Requests that ended with an error."""
    switches: int
    """Changes that filled another buffer and made it current."""
    copies_for_leases: int
    """Buffers copied, because a lease pinned the current one."""
    leases: int
    """Leases held now."""
    leases_granted: int
    snapshots: int
    """Snapshots written."""
    snapshot_failures: int
    """Snapshots given up. The snapshot before them is kept."""
