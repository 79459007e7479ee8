"""What devices, channels and peers say about themselves. All of it is a snapshot."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryStats:
    """Memory accounting of one direction, in bytes."""

    limit: int
    reserved: int
    """In segments, taken from the kernel."""
    used: int
    """In regions."""
    peak_used: int
    segments: int
    """Number of segments; each is registered once, never per array."""
    refusals: int
    """Allocations refused because a limit was reached."""
    held_back: int
    """Freed, and not reused yet because a forked child may still read it."""


@dataclass(frozen=True)
class AdapterStats:
    """Memory registered with RDMA adapters; all 0 for a device without the fabric verbs."""

    segments: int
    """Registrations of segments, ever."""
    on_demand: int
    """Registrations of users' own memory, ever."""
    live: int
    """Registrations there are now."""
    live_bytes: int
    nanoseconds: int
    """Spent in registering and deregistering."""
    transfers: int
    """Transfers from or to local memory."""
    transfers_registered: int
    """Of these, those whose memory had to be registered first."""


@dataclass(frozen=True)
class DeviceStats:
    """Counts of a device since it was opened."""

    send: MemoryStats
    """Memory that peers may read or alias."""
    receive: MemoryStats
    """Memory that peers may write."""
    registrations: int
    """Segments handed to a fabric."""
    adapters: AdapterStats
    """What of it, and of users' memory, RDMA adapters have registered."""
    channels_opened: int
    channels_open: int
    handshakes_refused: int
    leases_held_by_peers: int
    quarantined_bytes: int
    """Memory that a silent peer may still touch, and that is therefore not reused."""
    choices: tuple[str, ...]
    """One sentence a peer: which fabric was chosen, and why."""


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
    """Notifications that waited for room at the peer."""
    doorbells: int
    """Times a sleeping peer had to be woken."""
    leases_granted: int
    """To this peer, by this device."""
    leases_released: int
    leases_held: int
    """Of the peer's memory, by this device, now."""
    quarantined_bytes: int
    silences: int
    """Times the peer fell silent."""


@dataclass(frozen=True)
class TensorStats:
    """Counts of one end of an edge since it was opened. What an end cannot know stays 0."""

    pushed: int
    """Arrays written into slots."""
    offered: int
    """Arrays offered, for whatever reason."""
    offers_no_slot: int
    """Of these, because no slot was free."""
    staged: int
    """Arrays that the sender copied first, to offer them."""
    aliased: int
    """Offers that the receiver views in the sender's memory."""
    read: int
    """Offers that the receiver read."""
    allocations: int
    """Blocks of memory taken for an array."""
    registrations: int
    """Segments that the device registered meanwhile."""
    requests: int
    """Asked of the peer: opened slots, reads."""
    dropped_stale: int
    """Pushes of before a reset; their slots were granted again."""
    dropped_malformed: int
    """Pushes that did not fit what was announced."""
    dropped_offers: int
    """Offers that were either."""
    dropped_unseen: int
    """Arrays that arrived, and a reset or close came before they were received."""
    grants: int
    """Times a slot was handed to the sender."""
    revoked: int
    """Grants taken back unused, by a reset or close."""
    slots_free: int
    slots_granted: int
    slots_landed: int
    slots_viewed: int
    """Slots that live arrays view, now."""


class PeerState(enum.Enum):
    """What is known about a peer."""

    ALIVE = "alive"
    SILENT = "silent"
    """It said nothing for the detection time; it may come back."""
    CLOSED = "closed"
    """The channel was closed in good order, by the peer or by this side."""
    DEAD = "dead"
    """Its death is proven, be it before or after the channel was closed."""


@dataclass(frozen=True)
class Peer:
    """The device at the other end of a channel."""

    endpoint: str
    """Where it listens, ``host:port``."""
    uuid: bytes
    """16 bytes; stable over restarts on the same endpoint."""
    epoch: int
    """Tells its starts apart."""
    fabric: str
    fabric_reason: str
    """Why this fabric was chosen, one sentence."""
    lanes: int
    """Lanes of the channel; a `lane` argument is below it."""
    encrypted: bool
    """Whether what of the channel leaves the host is encrypted."""
