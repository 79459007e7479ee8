"""The parameter box: named segments of memory that a server holds and many clients share.

>>> import farwrite as fw

A process serves a box, `serve`. Clients connect, `connect`, and create or attach a `Segment`. They
read it one-sided, and the server applies their changes: it writes, accumulates, scales. A
`Publisher` hands the versions of a whole model to `Subscriber` objects.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from farwrite.box.cached import Cached
from farwrite.box.changes import Changes, Posted
from farwrite.box.client import Client, connect
from farwrite.box.event import Event
from farwrite.box.lease import Lease
from farwrite.box.local import add_scaled
from farwrite.box.publisher import Publisher
from farwrite.box.segment import Segment, SegmentInfo
from farwrite.box.server import Server, serve
from farwrite.box.stats import ClientStats, ServerStats
from farwrite.box.subscriber import Model, PublisherState, Subscriber
from farwrite.box.update import Update
from farwrite.box.updates import Updates, Watch

if TYPE_CHECKING:
    from farwrite.box import training as training

__all__ = [
    "Cached",
    "Changes",
    "Client",
    "ClientStats",
    "Event",
    "Lease",
    "Model",
    "Posted",
    "Publisher",
    "PublisherState",
    "Segment",
    "SegmentInfo",
    "Server",
    "ServerStats",
    "Subscriber",
    "Update",
    "Updates",
    "Watch",
    "add_scaled",
    "connect",
    "serve",
]


def __getattr__(name: str) -> Any:
    """Import `farwrite.box.training` when it is first used."""
    if name == "training":
        return importlib.import_module("farwrite.box.training")
    raise AttributeError(f"module 'farwrite.box' has no attribute '{name}'")


def __dir__() -> list[str]:
    """List the interface alone, and not the modules that hold it."""
    return sorted({*__all__, "training"})
