"""Tensors over a channel: `TensorSender` sends arrays, `TensorReceiver` receives them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, SupportsIndex, cast, get_args

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import (
    choice,
    flag,
    instance,
    lane_number,
    seconds,
    text,
    whole_number,
)
from farwrite.channel import Channel
from farwrite.completion import SUCCEEDED, Completion
from farwrite.doorbell import take_async
from farwrite.errors import DeadlineExceeded, EndOfStream, Error, InvalidArgument
from farwrite.lifetime.closing import Closing
from farwrite.memory.array import RegisteredArray
from farwrite.memory.cuda import CudaArray
from farwrite.memory.description import (
    Shape,
    check_size,
    checked_dtype,
    checked_shape,
    dtype_from_text,
    dtype_to_text,
)
from farwrite.memory.payload import SupportsDLPack, as_payload
from farwrite.metrics.stats import TensorStats

EdgeKind = Literal["static", "bounded", "dynamic"]
Tensor = npt.NDArray[Any] | RegisteredArray | SupportsDLPack | bytes | bytearray | memoryview

# Seconds that closing a sender waits for the receiver, unless a timeout is given.
_CLOSING = 10.0
# Seconds that sending waits for a slot or memory, unless a timeout is given.
_SENDING = 10.0


class TensorReceiver(
    Closing, elsewhere="open the end of a stream in the other process, over a channel of its own"
):
    """The receiving end of an edge: a named stream of arrays over a channel.

    Do not raise other notifications on a channel that carries tensors. Any number of edges can
    share the channel, in both directions.

    Any thread may call any method at any time. A context manager: the end of the ``with`` block
    closes the receiver.

    Parameters
    ----------
    channel : Channel
        The channel to the sender.
    name : str
        The name of the edge. The sender gives the same name.
    shape : int or tuple of int, optional
        Shape of every array, for a static edge.
    dtype : dtype, optional
        Element type of every array, of NumPy or PyTorch, for a static or bounded edge.
    kind : {"static", "bounded", "dynamic"}, optional
        What is known of the arrays in advance. The default is static with a `shape`, bounded with
        `max_bytes`, and dynamic with neither.
    max_bytes : int, optional
        Bytes of the largest array, for a bounded edge.
    slots : int
        Number of slots, 1 to 1024, which receive the arrays of a static or bounded edge. If no slot
        is free, the sender offers the array instead. An offer costs a copy or keeps the sender's
        memory in use. So slots do not bound how far a sender gets ahead: the `send_limit_per_peer`
        of its device does.
    lane : int
        The edge's lane, below ``channel.peer.lanes``.
    copy : bool
        Read offered arrays into this process's memory, even if it could view the sender's memory.

    Raises
    ------
    AlreadyExists
        If this side already has an open receiver of that name on the channel.
    ResourceExhausted
        If the slots do not fit into the device's `receive_limit`.
    """

    def __init__(
        self,
        channel: Channel,
        name: str,
        shape: Shape | None = None,
        dtype: npt.DTypeLike | None = None,
        *,
        kind: EdgeKind | None = None,
        max_bytes: SupportsIndex | None = None,
        slots: SupportsIndex = 2,
        lane: SupportsIndex = 0,
        copy: bool = False,
    ) -> None:
        operation = "open a TensorReceiver"
        choice(operation, "kind", kind, (*get_args(EdgeKind), None))
        chosen = _kind_of(shape, max_bytes) if kind is None else kind
        _check_known(operation, chosen, shape, dtype, max_bytes)
        element = None if dtype is None else checked_dtype(operation, dtype)
        self._name = name
        self._kind = chosen
        self._channel = _checked(operation, channel)
        self._native = _farwrite.TensorReceiver.open(
            channel.native,
            text(operation, "name", name),
            chosen,
            "" if element is None else dtype_to_text(element),
            1 if element is None else element.itemsize,
            [] if shape is None else list(_checked_static(operation, shape, element)),
            whole_number(
                operation, "max_bytes", 0 if max_bytes is None else max_bytes, 0, 2**63 - 1
            ),
            whole_number(
                operation, "slots", slots, 0 if chosen == "dynamic" else 1, _farwrite.MAX_SLOTS
            ),
            lane_number(operation, lane),
            flag(operation, "copy", copy),
        )

    @property
    def name(self) -> str:
        """The name of the edge."""
        return self._name

    @property
    def kind(self) -> EdgeKind:
        """What is known of the arrays in advance: "static", "bounded" or "dynamic"."""
        return self._kind

    @property
    def closed(self) -> bool:
        """Whether this process has called `close`."""
        return self._closed

    def receive(self, timeout: float | None = None) -> npt.NDArray[Any]:
        """Wait for the next array, in the order of sending. Ctrl-C interrupts the wait.

        The array is read-only. It views a slot, memory of this process, or the sender's memory.
        That memory is free again when the array and every view of it are deleted. The array and
        its views may outlive the receiver, the channel and the peer.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Returns
        -------
        numpy.ndarray
            Of the shape and dtype that were sent.

        Raises
        ------
        DeadlineExceeded
            If no array arrived in time.
        EndOfStream
            If the sender closed the edge and every array was received.
        Unavailable
            If the stream ended early: the sender abandoned it, or the peer closed the channel.
        PeerDead
            If the peer died and no array is left, or the next one cannot be read any more.
        Cancelled
            If this side closed the receiver or the channel.
        ResourceExhausted
            If there is no memory for the next array. It stays the next one: call again.
        """
        return _to_array(self._native.receive(timeout))

    async def receive_async(self, timeout: float | None = None) -> npt.NDArray[Any]:
        """Take the next array as `receive` does, without blocking the event loop.

        A task that is cancelled while it waits has taken none. Parameters and errors are those of
        `receive`.
        """
        limit = seconds("receive_async", timeout)
        return await take_async(
            self._channel,
            self.try_receive,
            lambda: self.receive(0),
            limit,
            lambda: self._native.wait(0),
        )

    def try_receive(self) -> npt.NDArray[Any] | None:
        """Return the next array if it has arrived, otherwise None."""
        taken = self._native.try_receive()
        return None if taken is None else _to_array(taken)

    def reset(self) -> None:
        """Drop the arrays that have arrived, and those sent before the reset reaches the sender."""
        self._native.reset()

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        """Receive until the sender has closed. An early end raises what `receive` raises."""
        while True:
            try:
                array = self.receive()
            except EndOfStream:
                return
            yield array
            del array  # or its slot would come back one array late

    def __aiter__(self) -> TensorReceiver:
        """Receive until the sender has closed, without blocking the event loop.

        An early end raises what `receive` raises.
        """
        return self

    async def __anext__(self) -> npt.NDArray[Any]:
        try:
            return await self.receive_async()
        except EndOfStream:
            raise StopAsyncIteration from None

    def stats(self) -> TensorStats:
        """Return the counters of this end of the edge."""
        return TensorStats(**self._native.stats())

    def close(self, timeout: float | None = 1.0) -> None:
        """End the edge. Received arrays stay valid. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait until no later byte of the sender can arrive; None waits for ever.

        Raises
        ------
        PeerSilent
            If the peer did not settle in time. Memory that it may still write stays quarantined.
        """
        limit = seconds("close", timeout)
        self._closed = True
        self._native.close(limit)

    def _facts(self) -> str:
        return f"'{self._name}', {self._kind}"


class TensorSender(
    Closing, elsewhere="open the end of a stream in the other process, over a channel of its own"
):
    """The sending end of an edge.

    The constructor waits until the peer has opened its `TensorReceiver`. Any thread may call any
    method at any time. A context manager: the end of the ``with`` block closes the sender, which
    waits 10 s for the receiver to take what was sent, and raises `DeadlineExceeded` if it does not.
    For a slow receiver call ``close(timeout=None)`` before the block ends. An exception in the
    block abandons the stream. So does a sender that is dropped without `close`.

    Parameters
    ----------
    channel : Channel
        The channel to the receiver.
    name : str
        The name of the edge. The receiver gives the same name.
    timeout : float or None
        Seconds to wait for the receiver; None waits for ever.

    Raises
    ------
    DeadlineExceeded, PeerSilent
        If the peer did not open a receiver of that name in time, or is silent before all slots are
        open.
    AlreadyExists
        If the edge already has, or had, a sender, and the peer did not open it again in time.
    """

    def __init__(self, channel: Channel, name: str, timeout: float | None = 10.0) -> None:
        self._name = name
        operation = "open a TensorSender"
        self._channel = _checked(operation, channel)
        self._native = _farwrite.TensorSender.open(
            channel.native_device,
            channel.native,
            text(operation, "name", name),
            seconds(operation, timeout),
        )
        # Of the last array that was sent: arrays of one dtype need no new look at it.
        # Dtype and text in one tuple, so that threads never see parts of two.
        self._last_sent: tuple[np.dtype[Any] | None, str] = (None, "")

    @property
    def name(self) -> str:
        """The name of the edge."""
        return self._name

    @property
    def kind(self) -> EdgeKind:
        """The kind that the receiver announced: "static", "bounded" or "dynamic"."""
        return cast("EdgeKind", self._native.kind())

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Element type that the receiver announced; None for a dynamic edge."""
        text = self._native.dtype()
        return dtype_from_text(text) if text else None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape that the receiver announced; None unless the edge is static."""
        return tuple(self._native.dims()) if self.kind == "static" else None

    def send(self, array: Tensor, timeout: float | None = _SENDING) -> Completion:
        """Send an array.

        If no slot is free and no send memory is left, the call waits until the receiver gives a
        slot or memory back. That memory is the `send_limit_per_peer` of the device, 8 GiB by
        default; a lower one holds the sender back earlier. After a second of the wait, the call
        logs which receiver it waits for. Ctrl-C interrupts the wait. In asyncio use ``timeout=0``,
        or a thread: the wait blocks the loop.

        Do not change the array until the `Completion` is done. An array from `Device.allocate` is
        never copied before it is sent. Other memory is copied first if no slot is free.

        Parameters
        ----------
        array : array, buffer or DLPack exporter
            C-contiguous, with the edge's dtype and shape where the edge has them. On the CPU, or on
            a GPU: from there it arrives in host memory. A PyTorch tensor needs no ``detach()``.
        timeout : float or None
            Seconds to wait for a slot or memory; 0 fails at once, None waits for ever.

        Returns
        -------
        Completion
            Succeeds when the array may be changed again. Keeps the array alive until then. For an
            array of `Device.allocate` that is offered, that is when the receiver has dropped it; a
            `Completion.wait` for that logs so after a second.

        Raises
        ------
        InvalidArgument
            If the array does not match the edge.
        DeadlineExceeded
            If the receiver gave back neither a slot nor memory in time, or a full lane stayed full.
        ResourceExhausted
            If `timeout` is 0, or if the receiver holds nothing that could come back, and the send
            memory does not suffice.
        Unavailable
            If the receiver has closed.
        """
        known, text = self._last_sent
        if type(array) is np.ndarray and array.dtype is known:
            posted = self._native.send_plain(array, text, timeout)
            if posted is not None:
                return SUCCEEDED if posted is True else Completion(posted, self._channel)
        source = as_payload("send", array)
        bytes_of = source.native if isinstance(source, CudaArray) else _as_bytes(source)
        text = dtype_to_text(source.dtype)
        native = self._native.send(bytes_of, text, source.dtype.itemsize, source.shape, timeout)
        if source.dtype.names is None:  # or its fields may be renamed
            self._last_sent = source.dtype, text
        return Completion(native, self._channel)

    def stats(self) -> TensorStats:
        """Return the counters of this end of the edge."""
        return TensorStats(**self._native.stats())

    def close(self, timeout: float | None = _CLOSING) -> None:
        """End the stream, and wait until the receiver has taken every array that was sent.

        The receiver may also have dropped them by `TensorReceiver.reset`. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If the receiver did not take everything in time. The message has the numbers. The arrays
            stay available: call `close` again to wait further.
        Unavailable
            If the receiver closed before it took everything, or the peer closed the channel.
        PeerDead
            If the peer died before it took everything.
        """
        limit = seconds("close", timeout)
        self._closed = True
        self._native.close(limit)

    def abandon(self) -> None:
        """End the stream before its end, without waiting.

        The receiver gets `Unavailable` in place of the end, so the stream does not look complete.
        No effect after `close`.
        """
        self._closed = True
        self._native.abandon()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Error):  # the error under way says more
            self.abandon()

    async def __aenter__(self) -> TensorSender:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do as the end of a ``with`` block does, without blocking the event loop."""
        if kind is not None:
            return self.__exit__(kind, error, traceback)
        if self._try_close() is None:  # before the first wait, in which the task may be cancelled
            await take_async(self._channel, self._try_close, lambda: self.close(0), _CLOSING)

    def _try_close(self) -> bool | None:
        try:
            self.close(0)
        except DeadlineExceeded:
            return None
        return True

    def _facts(self) -> str:
        return f"'{self._name}', {self.kind}"


def _checked_static(operation: str, shape: Shape, element: np.dtype[Any] | None) -> tuple[int, ...]:
    lengths = checked_shape(operation, shape)
    try:
        check_size(lengths, 1 if element is None else element.itemsize)
    except ValueError as error:
        raise InvalidArgument(f"{operation}: {error}; use a smaller one") from None
    return lengths


def _kind_of(shape: Shape | None, max_bytes: SupportsIndex | None) -> EdgeKind:
    if shape is not None:
        return "static"
    return "dynamic" if max_bytes is None else "bounded"


def _check_known(
    operation: str,
    kind: EdgeKind,
    shape: Shape | None,
    dtype: npt.DTypeLike | None,
    max_bytes: SupportsIndex | None,
) -> None:
    wanted = {
        "static": (True, True, False),
        "bounded": (False, True, True),
        "dynamic": (False, False, False),
    }[kind]
    given = (shape is not None, dtype is not None, max_bytes is not None)
    for name, is_wanted, is_given in zip(
        ("shape", "dtype", "max_bytes"), wanted, given, strict=True
    ):
        if is_wanted != is_given:
            raise InvalidArgument(
                f"{operation}: kind {kind!r} {'needs' if is_wanted else 'takes no'} {name}; give"
                " shape and dtype for 'static', dtype and max_bytes for 'bounded', and none of them"
                " for 'dynamic'"
            )


def _checked(operation: str, channel: Channel) -> Channel:
    return instance(operation, channel, Channel, "get one from Device.connect or Device.accept")


def _as_bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    # Any type has bytes; not every type has the buffer protocol, and no type without elements.
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    return array.reshape(-1).view(np.uint8)


def _to_array(taken: tuple[Any, str, tuple[int, ...]]) -> npt.NDArray[Any]:
    data, dtype, dims = taken
    return np.ndarray(dims, dtype_from_text(dtype), data)
