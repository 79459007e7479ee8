"""Channel: the connection to one peer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import function, instance, lane_number, seconds, shown, text, word
from farwrite.completion import SUCCEEDED, Completion
from farwrite.doorbell import Doorbell, forget_closed_loops, take_async
from farwrite.errors import Cancelled, FailedPrecondition, InvalidArgument, OutOfRange, Unavailable
from farwrite.lifetime.closing import Closing
from farwrite.memory.array import RegisteredArray, RemoteArray, registered
from farwrite.memory.description import (
    Shape,
    check_size,
    checked_dtype,
    checked_shape,
    count_bytes,
    parse,
)
from farwrite.memory.payload import (
    SupportsDLPack,
    as_array,
    as_buffer,
    as_destination,
    as_payload,
    byte_offset,
)
from farwrite.metrics.stats import ChannelStats, Peer, PeerState
from farwrite.notification import Notification, Notifications, ended_in_good_order

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

_LOOK_UP = "get one from Channel.lookup or Channel.open"
Payload = npt.NDArray[Any] | RegisteredArray | SupportsDLPack | bytes | bytearray | memoryview


class Channel(Closing, elsewhere="connect in the other process: device.connect(endpoint)"):
    """The connection to one peer. `Device.connect` and `Device.accept` create it.

    Any thread may call any method at any time. The end of a ``with`` block closes the channel.

    The channel keeps its device open, and an operation that is under way its channel:
    ``fw.Device().connect(...)`` gives a channel that works. Without `close`, the channel closes
    when the program has neither it nor an object that it made.

    Writes are unordered, even on one lane, unless a flush or a notification orders them.
    Notifications are ordered within one lane and unordered across lanes. When a peer takes the
    notification of a write, every byte of that write is visible to the peer.

    The constructor is internal: use the methods of `Device`.
    """

    def __init__(self, native: _farwrite.Channel, device: _farwrite.Device) -> None:
        self._native = native
        self._device = device  # after the channel, which so goes first
        self.doorbells: dict[AbstractEventLoop, Doorbell] = {}  # of tasks that wait for it

    # --- Memory and names.

    def allocate(
        self, shape: Shape, dtype: npt.DTypeLike = "uint8", *, kind: str = "host"
    ) -> RegisteredArray:
        """Allocate an array that this peer may write, and no other peer.

        Parameters
        ----------
        shape : int or tuple of int
            Lengths of the dimensions.
        dtype : dtype
            Element type, of NumPy or PyTorch; no Python objects.
        kind : str
            Where the memory lies: "host", or "cuda:0" for a GPU, as the driver numbers them for
            this process. There it takes multiples of 2 MiB, and its `array` is a `CudaArray`.
            Allocate once and reuse it.

        Returns
        -------
        RegisteredArray
            With undefined contents.

        Raises
        ------
        ResourceExhausted
            If the device's `receive_limit` is reached, or the GPU is full.
        Unsupported
            If the fabric of the channel does not reach GPUs.
        Unavailable
            If the CUDA driver cannot be opened.
        InvalidArgument
            If there is no such GPU.
        """
        place = text("allocate", "kind", kind)
        return RegisteredArray.allocate(
            lambda needed: self._native.allocate(needed, place), shape, dtype
        )

    def publish(self, name: str, array: RegisteredArray) -> RegisteredArray:
        """Publish `array` to this peer under `name`, with its shape and dtype.

        The call replaces an earlier array of that name. The array stays published until the channel
        closes.

        Returns
        -------
        RegisteredArray
            The same `array`.
        """
        registered(array).publish_with(self._native.publish, name)
        return array

    def lookup(self, name: str, timeout: float | None = 5.0) -> RemoteArray:
        """Open the array that the peer published under `name`. Wait until it is published.

        Parameters
        ----------
        name : str
            The name that the peer published, on its device or on this channel.
        timeout : float or None
            Seconds; None waits for ever. The peer has 20 ms to answer, however short the time is.

        Raises
        ------
        NotFound
            If the name was not published in time; the message lists the published names.
        InvalidArgument
            If the name is empty, or has more than 255 bytes.
        ProtocolError
            If the publisher did not describe an array; use `lookup_bytes` for plain bytes.
        PeerSilent, DeadlineExceeded
            If the peer did not answer in time, for example because it was stopped.
        """
        region = self._lookup(name, timeout)
        shape, dtype = parse(region.description(), region.size(), name)
        return RemoteArray(self, region, name, shape, dtype)

    def lookup_bytes(self, name: str, timeout: float | None = 5.0) -> RemoteArray:
        """Open the region that the peer published under `name` as plain bytes.

        Parameters and errors are those of `lookup`, without `ProtocolError`.

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
        """Open an array by its descriptor, which the program received from the peer.

        Parameters
        ----------
        descriptor : bytes
            `RegisteredArray.descriptor` at the peer.
        shape : int or tuple of int, optional
            By default one dimension that spans the region.
        dtype : dtype
            Element type, of NumPy or PyTorch.
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        PeerRestarted
            If the descriptor belongs to an earlier start of the peer.
        NotFound, PermissionDenied
            If the region does not exist, or this channel may not open it.
        PeerSilent, DeadlineExceeded
            If the peer did not answer in time, for example because it was stopped.
        InvalidArgument
            If `shape` and `dtype` need more bytes than the region has.
        """
        kind = checked_dtype("open", dtype)
        lengths = None if shape is None else checked_shape("open", shape)
        try:
            check_size(lengths or (), kind.itemsize)
        except ValueError as error:
            raise InvalidArgument(f"open: {error}; give a smaller one") from None
        if not isinstance(descriptor, bytes):
            raise InvalidArgument(
                f"open: the descriptor is {type(descriptor).__name__}; give the bytes of"
                " RegisteredArray.descriptor"
            )
        region = self._native.open(descriptor, seconds("open", timeout))
        if lengths is None:
            lengths = (region.size() // max(kind.itemsize, 1),)
        if count_bytes(lengths, kind) > region.size():
            raise InvalidArgument(
                f"open: shape {shown(lengths)} of {kind} needs more than the {region.size()} bytes"
                " that the peer gives; give a smaller shape"
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
        """Write `source` into the peer's array, without a call in the peer's program.

        Parameters
        ----------
        source : array, buffer or DLPack exporter
            C-contiguous, with the target's dtype, on the CPU or on a GPU. On a GPU, the call waits
            for the work that its library has queued for it. The shape has one dimension, or is the
            target's shape, or that of whole rows of the target. Farwrite does not copy the source
            first: do not change it before the `Completion` succeeds.
        target : RemoteArray
            An array that the peer made with `Channel.allocate`, so that this process may write it.
        offset : int
            Index of the first element to write, in C order.
        notify : int, optional
            A 32-bit tag. The peer receives it when all bytes are visible there.
        lane : int
            Lane of the write, below ``peer.lanes``.

        Returns
        -------
        Completion
            Succeeds when the source may be reused.

        Raises
        ------
        InvalidArgument
            If dtype, shape, channel or lane do not fit the target, or the source is not contiguous.
        OutOfRange, PermissionDenied
            If the elements exceed the target, or it is for reading only.
        """
        region = instance("write", target, RemoteArray, _LOOK_UP).native
        if (posted := self._native.write_plain(source, region, offset, notify, lane)) is not None:
            return SUCCEEDED if posted is True else Completion(posted, self)
        array = as_payload("write", source)
        start = byte_offset("write", array, target, offset)
        tag = None if notify is None else word("write", "notify", notify)
        native = self._native.write(
            as_buffer(array), region, start, tag, lane_number("write", lane)
        )
        return Completion(native, self)

    def read(
        self,
        source: RemoteArray,
        out: npt.NDArray[Any] | SupportsDLPack | bytearray | memoryview,
        offset: SupportsIndex = 0,
        *,
        lane: SupportsIndex = 0,
    ) -> Completion:
        """Read the peer's array into `out`, without a call in the peer's program.

        Parameters
        ----------
        source : RemoteArray
            An array that the peer made with `Device.allocate`, so that this process may read it.
        out : array, buffer or DLPack exporter
            Writable, C-contiguous, with the source's dtype, on the CPU or on a GPU. The shape is as
            in `write`.
        offset : int
            Index of the first element to read, in C order.
        lane : int
            Lane of the read, below ``peer.lanes``.

        Returns
        -------
        Completion
            Succeeds when `out` is filled.

        Raises
        ------
        InvalidArgument, OutOfRange, PermissionDenied
            As `write`, or if `out` is read-only, or the source is for writing only.
        """
        region = instance("read", source, RemoteArray, _LOOK_UP).native
        if (posted := self._native.read_plain(out, region, offset, lane)) is not None:
            return SUCCEEDED if posted is True else Completion(posted, self)
        array = as_destination("read", out)
        start = byte_offset("read", array, source, offset)
        native = self._native.read(as_buffer(array), region, start, lane_number("read", lane))
        return Completion(native, self)

    def flush(self) -> Completion:
        """Return a `Completion` of all earlier writes of this channel.

        It succeeds when every earlier write is visible to the peer.
        """
        return Completion(self._native.flush(), self)

    # --- Notifications and short messages.

    def notify(self, tag: SupportsIndex, *, lane: SupportsIndex = 0) -> Completion:
        """Raise a 32-bit tag at the peer, after the earlier notifications of the lane."""
        if (posted := self._native.notify_plain(tag, lane)) is not None:
            return SUCCEEDED if posted is True else Completion(posted, self)
        native = self._native.notify(word("notify", "tag", tag), lane_number("notify", lane))
        return Completion(native, self)

    def send(
        self, message: Payload, tag: SupportsIndex = 0, *, lane: SupportsIndex = 0
    ) -> Completion:
        """Send a message of at most `max_message_bytes` bytes.

        The message is ``bytes``, or another buffer or array. The peer receives it as a notification
        with `tag`.

        Raises
        ------
        OutOfRange
            If the message is longer.
        """
        if (posted := self._native.send_plain(message, tag, lane)) is not None:
            return SUCCEEDED if posted is True else Completion(posted, self)
        array = as_array("send", message)
        if array.nbytes > self.max_message_bytes:
            raise OutOfRange(
                f"send: {array.nbytes} bytes exceed the message limit of"
                f" {self.max_message_bytes} bytes; write() them into an array of the peer"
            )
        native = self._native.send(
            as_buffer(array), word("send", "tag", tag), lane_number("send", lane)
        )
        return Completion(native, self)

    @property
    def max_message_bytes(self) -> int:
        """The limit of a message, in bytes."""
        return self._native.max_message_bytes()

    def wait_notification(self, timeout: float | None = None) -> Notification:
        """Take the next notification of any lane: poll for the device's `spin`, then block.

        The wait continues while the peer is silent. After the peer's death, the notifications that
        had arrived still come first. Ctrl-C interrupts the wait.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If no notification arrived in time.
        Unavailable
            If the peer closed the channel and no notification is left.
        PeerDead
            If the peer died and no notification is left.
        """
        taken: Notification = self._native.wait_notification(timeout)
        return taken

    async def notification(self, timeout: float | None = None) -> Notification:
        """Take the next notification as `wait_notification` does, without blocking the event loop.

        A task that is cancelled while it waits has taken none. Parameters and errors are those of
        `wait_notification`.
        """
        limit = seconds("notification", timeout)
        last_look = partial(self.wait_notification, 0)
        return await take_async(self, self.try_notification, last_look, limit)

    def try_notification(self) -> Notification | None:
        """Take the next notification if there is one, otherwise return None. Never blocks."""
        taken: Notification | None = self._native.try_notification()
        return taken

    def next_notification(self, timeout: float | None = None) -> Notification | None:
        """Take the next notification, or return None after either side closed the channel."""
        try:
            return self.wait_notification(timeout)
        except (Unavailable, Cancelled, FailedPrecondition) as error:
            if ended_in_good_order(self, error):
                return None
            raise

    def notifications(self) -> Notifications:
        """Iterate over notifications, with ``for`` or ``async for``, until the channel closes."""
        return Notifications(self)

    def on_notification(self, handler: Callable[[Notification], object] | None) -> None:
        """Call `handler` with every notification, instead of queueing the notifications.

        The pollers call `handler` in their threads, in the order of each lane. With several lanes,
        several calls can run at once. `handler` must not block. Exceptions from `handler` go to
        ``sys.unraisablehook``. None restores the queue. When `on_notification` returns, the
        earlier handler is no longer running. A handler that refers to the channel keeps it, and its
        device, until `close`.

        Raises
        ------
        FailedPrecondition
            If a handler of this channel calls it.
        DeadlineExceeded
            If the earlier handler has not returned within 5 seconds. That handler stays in place.
        """
        if handler is None:
            self._native.on_notification(None)
            return
        self._native.on_notification(
            function("on_notification", "handler", handler, "a Notification, or None")
        )

    # --- The peer and the end.

    @property
    def peer(self) -> Peer:
        """The identity of the peer, the fabric of the channel, and why it was chosen."""
        return Peer(**self._native.peer())  # type: ignore[arg-type]

    @property
    def peer_state(self) -> PeerState:
        """The current state of the peer, as this process has observed it."""
        return PeerState(self._native.peer_state())

    def stats(self) -> ChannelStats:
        """Return the counters of the channel."""
        return ChannelStats(**self._native.stats())

    @property
    def closed(self) -> bool:
        """Whether this process has closed the channel."""
        return self._closed

    def as_capsule(self) -> object:
        """Return this channel for an extension module in C or C++, as a PyCapsule.

        The capsule's name is ``fw_channel``. Its pointer is a ``fw_channel *`` of the C ABI, which
        is the capsule's own: do not release it. It refers to this same channel, and is valid until
        the capsule is destroyed. The capsule keeps the channel and its device open. In C++,
        ``farwrite::Channel(fw_channel_share(pointer))`` is the channel. Link the module to this
        package's ``libfarwrite.so``.
        """
        return self._native.as_capsule(self._device)

    @property
    def native(self) -> _farwrite.Channel:
        """The core's handle. Internal."""
        return self._native

    @property
    def native_device(self) -> _farwrite.Device:
        """The core's handle of the channel's device. Internal."""
        return self._device

    def close(self, timeout: float | None = 1.0) -> None:
        """Close the channel. Pending operations end with `Cancelled`.

        `close` returns only when no later byte of the peer can arrive. Closing twice is allowed. A
        notification that still waits for the peer to take earlier ones may be dropped, even if its
        write has completed; to be sure, let the peer answer first.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for the peer to settle; None waits for ever.

        Raises
        ------
        PeerSilent
            If the peer did not settle in time. Memory that it may still write stays quarantined.
        DeadlineExceeded
            If a handler, or another thread's call on this channel, has not returned in time. The
            channel accepts no further calls, and closes when these have returned. Call `close`
            again to wait for that.
        FailedPrecondition
            If a handler of this channel calls it.
        """
        limit = seconds("close", timeout)
        forget_closed_loops(self)
        with self._closing():
            self._native.close(limit)

    def _facts(self) -> str:
        return f"to {self.peer.endpoint} over {self.peer.fabric}"

    def _state(self) -> str:
        return self.peer_state.value
