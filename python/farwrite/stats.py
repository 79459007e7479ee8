"""Counters and states of devices, channels, edges and peers. Every object is a snapshot."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryStats:
    """Memory accounting of one direction, in bytes."""

    limit: int
    """The device's limit for this direction."""
    reserved: int
    """Bytes taken from the kernel, in segments."""
    used: int
    """Bytes in regions."""
    peak_used: int
    segments: int
    """Number of segments. Each segment is registered once, not once per array."""
    refusals: int
    """Number of allocations refused because a limit was reached."""
    held_back: int
    """Bytes freed but not yet reused, because a forked child may still read them."""


@dataclass(frozen=True)
class AdapterStats:
    """Memory registered with RDMA adapters; all 0 for a device without the fabric verbs."""

    segments: int
    """Registrations of segments since the device was opened."""
    on_demand: int
    """Registrations of callers' own memory since the device was opened."""
    live: int
    """Current registrations."""
    live_bytes: int
    """Bytes of the current registrations."""
    nanoseconds: int
    """Time spent on registering and deregistering."""
    transfers: int
    """Transfers from or to local memory."""
    transfers_registered: int
    """Transfers of these whose memory had to be registered first."""


@dataclass(frozen=True)
class DeviceStats:
    """Counts of a device since it was opened."""

    send: MemoryStats
    """Memory that peers may read or alias."""
    receive: MemoryStats
    """Memory that peers may write."""
    registrations: int
    """Segments registered with a fabric."""
    adapters: AdapterStats
    """Memory that RDMA adapters have registered, of the device and of callers."""
    channels_opened: int
    channels_open: int
    handshakes_refused: int
    leases_held_by_peers: int
    quarantined_bytes: int
    """Bytes that a silent peer may still access, and that are therefore not reused."""
    choices: tuple[str, ...]
    """One sentence for each peer: which fabric was chosen, and why."""


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
    """Passes over payload bytes by this process's CPU."""
    notifications_sent: int
    notifications_received: int
    messages_sent: int
    messages_received: int
    backlogged: int
    """Notifications that waited for space in the peer's ring."""
    doorbells: int
    """Number of times that a sleeping peer was woken."""
    leases_granted: int
    """Leases that this device granted to the peer."""
    leases_released: int
    """Granted leases that the peer released, or that ended with its proven death."""
    leases_held: int
    """Leases on the peer's memory that this device holds now."""
    quarantined_bytes: int
    """Bytes that the peer may still access, and that are therefore not reused."""
    silences: int
    """Number of times that the peer fell silent."""


@dataclass(frozen=True)
class TensorStats:
    """Counts of one end of an edge since it was opened. Counts of the other end only are 0."""

    pushed: int
    """Arrays written into slots."""
    offered: int
    """Arrays offered, for any reason."""
    offers_no_slot: int
    """Arrays offered because no slot was free."""
    staged: int
    """Arrays that the sender copied before it offered them."""
    aliased: int
    """Offers that the receiver viewed in the sender's memory."""
    read: int
    """Offers that the receiver read."""
    allocations: int
    """Memory blocks allocated for an array."""
    registrations: int
    """Segments that the device registered since the edge was opened."""
    requests: int
    """Requests to the peer: to open a slot, or to read."""
    dropped_stale: int
    """Pushes sent before a reset and dropped. Their slots were granted again."""
    dropped_malformed: int
    """Pushes dropped because they did not match the announcement."""
    dropped_offers: int
    """Offers dropped because they were stale or malformed."""
    dropped_unseen: int
    """Arrays that arrived, and were dropped by a reset or close before they were received."""
    grants: int
    """Number of times that a slot was granted to the sender."""
    revoked: int
    """Unused grants that a reset or close took back."""
    slots_free: int
    slots_granted: int
    slots_landed: int
    slots_viewed: int
    """Slots that existing arrays view now."""


class PeerState(enum.Enum):
    """The state of a peer, as this process has observed it."""

    ALIVE = "alive"
    SILENT = "silent"
    """The peer sent nothing for the detection time. It may resume."""
    CLOSED = "closed"
    """The peer or this process closed the channel in good order."""
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
