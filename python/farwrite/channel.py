"""Channel: the link to one peer."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import seconds, text, word
from farwrite.array import RegisteredArray, RemoteArray, registered
from farwrite.closing import Closing
from farwrite.completion import Completion
from farwrite.description import Shape, checked_dtype, checked_shape, count_bytes, parse
from farwrite.errors import (
    Cancelled,
    FailedPrecondition,
    InvalidArgument,
    OutOfRange,
    Unavailable,
)
from farwrite.notification import Notification, Notifications
from farwrite.payload import SupportsDLPack, as_array, as_buffer, as_destination, byte_offset
from farwrite.stats import ChannelStats, Peer, PeerState

Payload = npt.NDArray[Any] | RegisteredArray | SupportsDLPack | bytes | bytearray | memoryview


def _checked(operation: str, remote: RemoteArray) -> RemoteArray:
    if not isinstance(remote, RemoteArray):
        raise InvalidArgument(
            f"{operation}: {type(remote).__name__} is no array of a peer; get one from"
            " Channel.lookup or Channel.open"
        )
    return remote


class Channel(Closing):
    """The link to one peer. Made by `Device.connect` and `Device.accept`.

    Any thread may call anything at any time. A context manager that closes at the end.

    Writes are unordered unless flushed or notified, also two writes on one lane. Notifications are
    ordered on one lane and unordered across lanes. When a peer takes the notification of a write,
    every byte of that write is visible to it.

    Parameters are internal: use the methods of `Device`.
    """

    def __init__(self, native: _farwrite.Channel, device: _farwrite.Device) -> None:
        self._native = native
        # Not kept alive: the device closes with its last user, whoever holds a channel.
        self._device = weakref.ref(device)
        self._closed = False

    # --- Memory and names.

    def allocate(self, shape: Shape, dtype: npt.DTypeLike = "uint8") -> RegisteredArray:
        """Make an array that this peer, and nobody else, may write. Contents undefined.

        Parameters
        ----------
        shape : int or tuple of int
            Lengths of the dimensions.
        dtype : dtype
            Element type; no Python objects.

        Raises
        ------
        ResourceExhausted
            If the device's `receive_limit` is reached.
        """
        return RegisteredArray.allocate(self._native.allocate, shape, dtype)

    def publish(self, name: str, array: RegisteredArray) -> RegisteredArray:
        """Show `array` to this peer under `name`, with its shape and dtype.

        Replaces an earlier one of that name. A published array lives on until the channel closes.

        Returns
        -------
        RegisteredArray
            The same `array`.
        """
        registered(array).publish_with(self._native.publish, name)
        return array

    def lookup(self, name: str, timeout: float | None = 5.0) -> RemoteArray:
        """Open the array that the peer published under `name`, waiting for it to appear.

        Parameters
        ----------
        name : str
            What the peer called it, on its device or on this channel.
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        NotFound
            If nothing of that name appeared in time; the message lists what did.
        InvalidArgument
            If the name is empty, or has more than 255 bytes.
        ProtocolError
            If the region was published by a program that describes no array; see `lookup_bytes`.
        """
        region = self._lookup(name, timeout)
        shape, dtype = parse(region.description(), region.size(), name)
        return RemoteArray(self, region, name, shape, dtype)

    def lookup_bytes(self, name: str, timeout: float | None = 5.0) -> RemoteArray:
        """Open what the peer published under `name` as plain bytes, whatever it holds.

        Returns
        -------
        RemoteArray
            Of dtype uint8 and shape (bytes,).
        """
        region = self._lookup(name, timeout)
        return RemoteArray(self, region, name, (region.size(),), np.dtype(np.uint8))

    def _lookup(self, name: str, timeout: float | None) -> _farwrite.RemoteRegion:
        return self._native.lookup(text("lookup", "name", name), seconds("lookup", timeout))

    def open(
        self,
        descriptor: bytes,
        shape: Shape | None = None,
        dtype: npt.DTypeLike = "uint8",
        timeout: float | None = 5.0,
    ) -> RemoteArray:
        """Open an array by its descriptor, which came by other means than a name.

        Parameters
        ----------
        descriptor : bytes
            `RegisteredArray.descriptor` at the peer.
        shape : int or tuple of int, optional
            Without it, one dimension with all of the region.
        dtype : dtype
            Element type.
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        PeerRestarted
            If the descriptor belongs to an earlier start of the peer.
        NotFound, PermissionDenied
            If there is no such region, or not for this channel.
        InvalidArgument
            If the region is smaller than `shape` and `dtype` say.
        """
        kind = checked_dtype(dtype)
        if not isinstance(descriptor, bytes):
            raise InvalidArgument(
                f"open: the descriptor is {type(descriptor).__name__}; give the bytes of"
                " RegisteredArray.descriptor"
            )
        region = self._native.open(descriptor, seconds("open", timeout))
        if shape is None:
            lengths: tuple[int, ...] = (region.size() // max(kind.itemsize, 1),)
        else:
            lengths = checked_shape(shape)
        if count_bytes(lengths, kind) > region.size():
            raise InvalidArgument(
                f"open: shape {lengths} of {kind} needs {count_bytes(lengths, kind)} bytes, and"
                f" the region has {region.size()}"
            )
        return RemoteArray(self, region, "region", lengths, kind)

    # --- One-sided transfers.

    def write(
        self,
        source: Payload,
        target: RemoteArray,
        offset: SupportsIndex = 0,
        *,
        notify: SupportsIndex | None = None,
        lane: SupportsIndex = 0,
    ) -> Completion:
        """Write `source` into the peer's array. The peer's program takes no part in it.

        Parameters
        ----------
        source : array, buffer or DLPack exporter
            On the CPU, C-contiguous, of the target's dtype. It is not copied first. Its shape is
            one run of elements, the target's shape, or whole rows of it.
        target : RemoteArray
            Must be one that this peer may write, from its `Channel.allocate`.
        offset : int
            First element to write, counted in C order.
        notify : int, optional
            A 32-bit tag to raise at the peer when all bytes are visible there.
        lane : int
            Which lane to use, below ``peer.lanes``.

        Returns
        -------
        Completion
            Ok when the source may be reused.

        Raises
        ------
        InvalidArgument
            If dtype or shape do not fit the target, or the source is not contiguous.
        OutOfRange
            If it would leave the target.
        """
        _checked("write", target)
        array = as_array("write", source)
        start = byte_offset("write", array, target, offset)
        tag = None if notify is None else word("write", "notify", notify)
        native = self._native.write(
            as_buffer(array), target.native, start, tag, word("write", "lane", lane)
        )
        return Completion(native, array)

    def read(
        self,
        source: RemoteArray,
        out: npt.NDArray[Any] | SupportsDLPack | bytearray | memoryview,
        offset: SupportsIndex = 0,
        *,
        lane: SupportsIndex = 0,
    ) -> Completion:
        """Read the peer's array into `out`. The peer's program takes no part in it.

        Parameters
        ----------
        source : RemoteArray
            Must be one that peers may read, from a `Device.allocate`.
        out : array, buffer or DLPack exporter
            Writable, on the CPU, C-contiguous, of the source's dtype; the shape as in `write`.
        offset : int
            First element to read, counted in C order.
        lane : int
            Which lane to use, below ``peer.lanes``.

        Returns
        -------
        Completion
            Ok when `out` is filled.
        """
        _checked("read", source)
        array = as_destination("read", out)
        start = byte_offset("read", array, source, offset)
        native = self._native.read(
            as_buffer(array), source.native, start, word("read", "lane", lane)
        )
        return Completion(native, array)

    def flush(self) -> Completion:
        """Ok when every earlier write of this channel is visible to the peer."""
        return Completion(self._native.flush())

    # --- Notifications and short messages.

    def notify(self, tag: SupportsIndex, *, lane: SupportsIndex = 0) -> Completion:
        """Raise a 32-bit tag at the peer, without bytes, behind earlier ones of the lane."""
        return Completion(
            self._native.notify(word("notify", "tag", tag), word("notify", "lane", lane))
        )

    def send(
        self, message: Payload, tag: SupportsIndex = 0, *, lane: SupportsIndex = 0
    ) -> Completion:
        """Send a short message, at most `max_message_bytes` bytes; it comes as a notification."""
        array = as_array("send", message)
        if array.nbytes > self.max_message_bytes:
            raise OutOfRange(
                f"send: {array.nbytes} bytes are more than the {self.max_message_bytes} of a"
                " message; write() them into an array of the peer"
            )
        native = self._native.send(
            as_buffer(array), word("send", "tag", tag), word("send", "lane", lane)
        )
        return Completion(native, array)

    @property
    def max_message_bytes(self) -> int:
        """How long a message may be, in bytes."""
        return self._native.max_message_bytes()

    def wait_notification(self, timeout: float | None = None) -> Notification:
        """Take the next notification of any lane: poll for the device's `spin`, then block.

        Waits on while the peer is silent. After a peer's death, what had arrived still comes first.
        Ctrl-C ends the waiting.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If nothing came in time.
        Unavailable
            If the peer closed the channel and nothing is left.
        PeerDead
            If the peer died and nothing is left.
        """
        limit = seconds("wait_notification", timeout)
        return Notification(*self._native.wait_notification(limit))

    def try_notification(self) -> Notification | None:
        """Take the next notification if there is one; never blocks."""
        taken = self._native.try_notification()
        return None if taken is None else Notification(*taken)

    def next_notification(self, timeout: float | None = None) -> Notification | None:
        """Take the next notification, or return None when the channel is closed by either side."""
        try:
            return self.wait_notification(timeout)
        except Unavailable:  # the peer closed it; its process may be gone by now, too
            return None
        except (Cancelled, FailedPrecondition):
            if self._closed or self.peer_state is PeerState.CLOSED:  # with its device
                return None
            raise

    def notifications(self) -> Notifications:
        """Iterate over notifications, with ``for`` or ``async for``, until the channel closes."""
        return Notifications(self)

    def on_notification(self, handler: Callable[[Notification], object] | None) -> None:
        """Have `handler` called with every notification, instead of queueing it.

        Pollers call it in lane order, from their threads, several at once if there are several
        lanes. It must not block. What it raises goes to ``sys.unraisablehook``. None goes back to
        the queue; when this returns, the earlier handler is not running any more.

        Raises
        ------
        FailedPrecondition
            If called inside a handler of this channel.
        DeadlineExceeded
            If the earlier handler has not returned within 5 seconds; it stays.
        """
        if handler is None:
            self._native.on_notification(None)
            return
        if not callable(handler):
            raise InvalidArgument(
                f"on_notification: {type(handler).__name__} cannot be called; give a function that"
                " takes a Notification, or None"
            )
        deliver = handler

        def call(tag: int, lane: int, message: bytes) -> None:
            deliver(Notification(tag, lane, message))

        self._native.on_notification(call)

    # --- The peer and the end.

    @property
    def peer(self) -> Peer:
        """Who is at the other end, over which fabric and why."""
        return Peer(**self._native.peer())  # type: ignore[arg-type]

    @property
    def peer_state(self) -> PeerState:
        """What is known about the peer now."""
        return PeerState(self._native.peer_state())

    def stats(self) -> ChannelStats:
        """Count what the channel did so far."""
        return ChannelStats(**self._native.stats())

    @property
    def closed(self) -> bool:
        """Whether `close` was called here."""
        return self._closed

    def as_capsule(self) -> object:
        """Return this channel for an extension module in C++, as a PyCapsule.

        The capsule's name is ``farwrite::Channel``. Its pointer is a ``farwrite::Channel *`` that
        stays valid until the capsule is destroyed, and refers to this same channel. Build the
        module with this package's headers and link it to its ``libfarwrite.so``.
        """
        return self._native.as_capsule()

    @property
    def native(self) -> _farwrite.Channel:
        """The core's handle. Internal."""
        return self._native

    @property
    def native_device(self) -> _farwrite.Device:
        """The core's handle of the channel's device. Internal."""
        device = self._device()
        if device is None:
            raise FailedPrecondition("the channel's device is gone; keep it while you use it")
        return device

    def close(self, timeout: float | None = 1.0) -> None:
        """Close the channel. Pending operations end with `Cancelled`. Closing twice is fine.

        Returns only when no later byte of the peer can land here.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for the peer to settle; None waits for ever.

        Raises
        ------
        PeerSilent
            If the peer did not settle; memory it may still write stays quarantined.
        DeadlineExceeded
            If a handler, or another thread's call on this channel, has not returned. The channel
            takes no calls any more, and closes by itself once they have returned; close it again to
            wait for that.
        FailedPrecondition
            If a handler of this channel calls it.
        """
        limit = seconds("close", timeout)
        self._closed = True
        self._native.close(limit)

    def __repr__(self) -> str:
        peer = self.peer
        return f"<Channel to {peer.endpoint} over {peer.fabric}, {self.peer_state.value}>"
