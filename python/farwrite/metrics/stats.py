"""Counters and states of devices, channels, edges and peers. Every object is a snapshot."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from farwrite.metrics.counter import counters


@counters
@dataclass(frozen=True)
class MemoryStats:
    """Memory accounting of one direction, in bytes."""

    limit: int
    reserved: int
    used: int
    peak_used: int
    segments: int
    refusals: int
    held_back: int


@counters
@dataclass(frozen=True)
class AdapterStats:
    """Memory registered with RDMA adapters; all 0 for a device without the fabric verbs."""

    segments: int
    on_demand: int
    live: int
    live_bytes: int
    nanoseconds: int
    transfers: int
    transfers_registered: int


@counters
@dataclass(frozen=True)
class GpuStats:
    """What this process has done with GPUs, all devices together; all 0 without GPU memory."""

    mappings: int
    mapped_bytes: int
    copies: int
    copied_bytes: int
    staged_bytes: int
    pins: int
    pinned_bytes: int


@counters
@dataclass(frozen=True)
class DeviceStats:
    """Counts of a device since it was opened.

    `send` is memory that peers may read or alias, `receive` memory that peers may write,
    `adapters` memory that RDMA adapters have registered, and `gpu` what the process has done with
    GPUs. `choices` has one sentence for each peer: which fabric was chosen, and why.
    """

    send: MemoryStats
    receive: MemoryStats
    registrations: int
    adapters: AdapterStats
    gpu: GpuStats
    channels_opened: int
    channels_open: int
    handshakes_refused: int
    leases_held_by_peers: int
    quarantined_bytes: int
    choices: tuple[str, ...]


@counters
@dataclass(frozen=True)
class ChannelStats:
    """Counts of a channel since it was opened."""

    writes: int
    reads: int
    aliases: int
    bytes_written: int
    bytes_read: int
    bytes_aliased: int
    copies: int
    notifications_sent: int
    notifications_received: int
    messages_sent: int
    messages_received: int
    backlogged: int
    doorbells: int
    leases_granted: int
    leases_released: int
    leases_held: int
    quarantined_bytes: int
    silences: int


@counters
@dataclass(frozen=True)
class TensorStats:
    """Counts of one end of an edge since it was opened. Counts of the other end only are 0."""

    pushed: int
    offered: int
    offers_no_slot: int
    staged: int
    aliased: int
    read: int
    eager: int
    allocations: int
    registrations: int
    requests: int
    dropped_stale: int
    dropped_malformed: int
    dropped_offers: int
    dropped_unseen: int
    grants: int
    revoked: int
    slots_free: int
    slots_granted: int
    slots_landed: int
    slots_viewed: int


class PeerState(enum.Enum):
    """The state of a peer, as this process has observed it."""

    ALIVE = "alive"
    SILENT = "silent"
    """The peer sent nothing for the detection time. It may resume."""
    CLOSED = "closed"
    """The peer or this process closed the channel normally."""
    DEAD = "dead"
    """The death of the peer is proven, before or after the channel was closed."""


@dataclass(frozen=True)
class Peer:
    """The device at the other end of a channel."""

    endpoint: str
    """The address at which the peer listens, ``host:port``."""
    uuid: bytes
    """16 bytes that identify the peer, stable over restarts on the same endpoint."""
    epoch: int
    """A number that distinguishes the starts of the peer."""
    fabric: str
    """The fabric of the channel, for example "shm"."""
    fabric_reason: str
    """Why this fabric was chosen, in one sentence."""
    lanes: int
    """Number of lanes of the channel. A `lane` argument is below it."""
    encrypted: bool
    """Whether the data of the channel that leaves the host is encrypted."""
