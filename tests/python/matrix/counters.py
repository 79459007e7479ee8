"""What a world holds while it lives, and what it has sent: counts that a call must give back."""

from __future__ import annotations

import numpy as np

import held
from held import Counts
from matrix import far_side
from matrix.calls import WORLD


def kept() -> Counts:
    """Count what calls must give back, of the system and of Farwrite."""
    device, listed = WORLD["Device"].stats(), WORLD["Client"].list()
    return {
        **held.held(),
        "registrations": device.registrations,
        "leases of peers": device.leases_held_by_peers,
        "quarantined bytes": device.quarantined_bytes,
        "leases": WORLD["Channel"].stats().leases_held,
        "bytes to send": device.send.used,
        "bytes to receive": device.receive.used,
        "leases of the server": WORLD["Server"].stats().leases,
        "attachments": sum(info.attached for info in listed),
        "temporary segments": sum(info.temporary for info in listed),
    }


def settled(before: Counts | None = None, stays: float = held.STAYS) -> Counts:
    """Count what is kept, once the peer has taken what was sent to it: see `held.settled`."""
    WORLD["TensorSender"].send(np.frombuffer(far_side.END, "float32")).wait(20)
    WORLD["peer process"].run(far_side.arrived, "tensor")
    return held.settled(kept, before, stays)


def posted() -> Counts:
    """Count what has gone to the peer, and to the box."""
    listed = WORLD["Client"].list()  # answered when earlier changes of this client are applied
    channel, sender = WORLD["Channel"].stats(), WORLD["TensorSender"].stats()
    return {
        "writes": channel.writes,
        "notifications": channel.notifications_sent + channel.messages_sent,
        "tensors": sender.pushed + sender.offered,
        "models": WORLD["Publisher"].version,
        **{f"versions of {info.name}": info.version for info in listed},
    }


def growth(before: Counts) -> Counts:
    """Return how much more has gone there than before, also to segments that were there."""
    after = posted()
    return {name: after[name] - before[name] for name in before if name in after}
