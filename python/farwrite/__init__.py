"""Farwrite moves arrays between processes by one-sided access to registered memory.

>>> import farwrite as fw

A process opens a `Device`, allocates a `RegisteredArray` and publishes the array under a name. A
peer connects over a `Channel` and looks the name up. The peer gets a `RemoteArray`, which it
writes, reads or aliases. ``fw.box`` is the parameter box: segments that many processes share.
"""

from __future__ import annotations

import importlib
import os
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

import farwrite.lifetime.interpreter  # before the core is loaded

# isort: split
import farwrite.lifetime.at_exit  # noqa: F401  # before what the program registers
from farwrite.errors import (
    AlreadyExists,
    Cancelled,
    DeadlineExceeded,
    EndOfStream,
    Error,
    FailedPrecondition,
    Forked,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PeerDead,
    PeerRestarted,
    PeerSilent,
    PermissionDenied,
    ProtocolError,
    ResourceExhausted,
    StatusCode,
    Unauthenticated,
    Unavailable,
    Unsupported,
    VersionMismatch,
)
from farwrite.info import info, refuse_if_exhausted, version
from farwrite.log import log_level, set_log_level

if TYPE_CHECKING:
    from farwrite import box as box
    from farwrite import trace as trace
    from farwrite.channel import Channel
    from farwrite.completion import Completion
    from farwrite.device import Device
    from farwrite.memory.array import RegisteredArray, RemoteArray
    from farwrite.memory.cuda import CudaArray
    from farwrite.memory.registration import MemoryRegistration
    from farwrite.metrics.stats import (
        AdapterStats,
        ChannelStats,
        DeviceStats,
        GpuStats,
        MemoryStats,
        Peer,
        PeerState,
        TensorStats,
    )
    from farwrite.notification import Notification, Notifications
    from farwrite.options.device import DEFAULT_TOKEN
    from farwrite.options.verbs import VerbsOptions
    from farwrite.tensor import TensorReceiver, TensorSender

    __version__: str

__all__ = [
    "DEFAULT_TOKEN",
    "AdapterStats",
    "AlreadyExists",
    "Cancelled",
    "Channel",
    "ChannelStats",
    "Completion",
    "CudaArray",
    "DeadlineExceeded",
    "Device",
    "DeviceStats",
    "EndOfStream",
    "Error",
    "FailedPrecondition",
    "Forked",
    "GpuStats",
    "Internal",
    "InvalidArgument",
    "MemoryRegistration",
    "MemoryStats",
    "NotFound",
    "Notification",
    "Notifications",
    "OutOfRange",
    "Peer",
    "PeerDead",
    "PeerRestarted",
    "PeerSilent",
    "PeerState",
    "PermissionDenied",
    "ProtocolError",
    "RegisteredArray",
    "RemoteArray",
    "ResourceExhausted",
    "StatusCode",
    "TensorReceiver",
    "TensorSender",
    "TensorStats",
    "Unauthenticated",
    "Unavailable",
    "Unsupported",
    "VerbsOptions",
    "VersionMismatch",
    "info",
    "log_level",
    "set_log_level",
]

_HOMES = {
    "AdapterStats": "farwrite.metrics.stats",
    "Channel": "farwrite.channel",
    "ChannelStats": "farwrite.metrics.stats",
    "Completion": "farwrite.completion",
    "CudaArray": "farwrite.memory.cuda",
    "DEFAULT_TOKEN": "farwrite.options.device",
    "Device": "farwrite.device",
    "DeviceStats": "farwrite.metrics.stats",
    "GpuStats": "farwrite.metrics.stats",
    "MemoryRegistration": "farwrite.memory.registration",
    "MemoryStats": "farwrite.metrics.stats",
    "Notification": "farwrite.notification",
    "Notifications": "farwrite.notification",
    "Peer": "farwrite.metrics.stats",
    "PeerState": "farwrite.metrics.stats",
    "RegisteredArray": "farwrite.memory.array",
    "RemoteArray": "farwrite.memory.array",
    "TensorReceiver": "farwrite.tensor",
    "TensorSender": "farwrite.tensor",
    "TensorStats": "farwrite.metrics.stats",
    "VerbsOptions": "farwrite.options.verbs",
}
"""The modules of the names that need NumPy or that few programs use."""


# First uses come in turn: NumPy fails if two threads import parts of it at once. And none is under
# way during a fork: its child would wait for ever for a thread that it does not have.
_first_use = threading.RLock()
os.register_at_fork(
    before=_first_use.acquire,
    after_in_parent=_first_use.release,
    after_in_child=_first_use.release,
)


def __getattr__(name: str) -> Any:
    """Import a name of the interface at its first use."""
    if name in _HOMES:
        value = getattr(_imported(_HOMES[name]), name)
        globals()[name] = value  # the next use finds it without this function
        return value
    if name in ("box", "trace"):
        return _imported(f"farwrite.{name}")
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'farwrite' has no attribute '{name}'")


def _imported(module: str) -> ModuleType:
    try:
        with _first_use:
            return importlib.import_module(module)
    except OSError as error:
        refuse_if_exhausted(error, f"import {module}")
        raise


def __dir__() -> list[str]:
    """List the interface alone, and not the modules that hold it."""
    loaded = {"tensorflow"} & globals().keys()  # a program imports it by this name
    return sorted({*__all__, "__version__", "box", "trace", *loaded})
