"""Device: what a process opens to reach others and be reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from farwrite import _farwrite
from farwrite.array import RegisteredArray
from farwrite.channel import Channel
from farwrite.closing import Closing
from farwrite.description import Shape
from farwrite.lifetime import close_at_exit
from farwrite.options import HugePages, device_options
from farwrite.payload import as_array, as_buffer
from farwrite.stats import DeviceStats, MemoryStats

GIB = 2**30
MIB = 2**20


class Device(Closing):
    """What a process opens: its fabrics, its memory, its pollers and one listening endpoint.

    Any thread may call anything at any time. A context manager that closes at the end. A forked
    child cannot use its parent's device: it gets `Forked`, and opens its own.

    Parameters
    ----------
    listen : str, optional
        Where peers reach this device, ``host:port``. Port 0, the default, picks a free one; see
        `endpoint`.
    port : int, optional
        Short for ``listen="127.0.0.1:port"``.
    fabrics : sequence of str
        Fabrics the device may use, best first. One entry forces it: a peer that cannot use it is
        an error that says why, never a silent fallback.
    lanes : int
        Lanes (queue pairs) for each peer, spread over the pollers. Both sides use the smaller.
    pollers : int
        Threads that make progress, each the owner of one completion queue.
    spin : float
        Seconds that a waiting thread polls before it blocks.
    token : str or bytes, optional
        Shared secret. When set, both sides must prove it before any memory is exposed.
    send_limit, receive_limit : int
        Bytes of memory that peers may read, and that peers may write, all peers together.
    send_limit_per_peer, receive_limit_per_peer : int, optional
        The same for a single peer; by default no less than for all.
    segment_bytes, receive_segment_bytes : int
        Bytes by which each of the two grows.
    huge_pages : {"off", "transparent", "explicit"}
        Huge pages for that memory; "explicit" fails if the machine has none reserved.
    prefault : bool
        Take pages from the kernel when memory grows, not at its first use, which is far slower.
    numa_node : int, optional
        Bind the memory to this node.
    detection_time : float
        Seconds after which a peer that says nothing counts as silent: quarantined, not dead.
    handshake_timeout : float
        Seconds that one connection's handshake may take, from either side.

    Raises
    ------
    InvalidArgument
        If an option is no valid value; the message names it.
    AlreadyExists
        If the port is taken.

    Examples
    --------
    >>> import farwrite as fw
    >>> with fw.Device() as device:
    ...     weights = device.publish("weights", device.allocate((1024, 1024), "float32"))
    ...     weights.array[:] = 1
    """

    def __init__(
        self,
        *,
        listen: str | None = None,
        port: SupportsIndex | None = None,
        fabrics: Sequence[str] = ("shm",),
        lanes: SupportsIndex = 1,
        pollers: SupportsIndex = 1,
        spin: float = 20e-6,
        token: str | bytes | None = None,
        send_limit: SupportsIndex = 8 * GIB,
        send_limit_per_peer: SupportsIndex | None = None,
        receive_limit: SupportsIndex = 8 * GIB,
        receive_limit_per_peer: SupportsIndex | None = None,
        segment_bytes: SupportsIndex = 64 * MIB,
        receive_segment_bytes: SupportsIndex = 8 * MIB,
        huge_pages: HugePages = "transparent",
        prefault: bool = True,
        numa_node: SupportsIndex | None = None,
        detection_time: float = 5.0,
        handshake_timeout: float = 5.0,
    ) -> None:
        self._native = _farwrite.Device(
            device_options(
                listen=listen,
                port=port,
                fabrics=fabrics,
                lanes=lanes,
                pollers=pollers,
                spin=spin,
                token=token,
                send_limit=send_limit,
                send_limit_per_peer=send_limit_per_peer,
                receive_limit=receive_limit,
                receive_limit_per_peer=receive_limit_per_peer,
                segment_bytes=segment_bytes,
                receive_segment_bytes=receive_segment_bytes,
                huge_pages=huge_pages,
                prefault=prefault,
                numa_node=numa_node,
                detection_time=detection_time,
                handshake_timeout=handshake_timeout,
            )
        )
        close_at_exit(self._native)

    @property
    def endpoint(self) -> str:
        """Where peers connect to, ``host:port``, with the port that was picked."""
        return self._native.endpoint()

    @property
    def uuid(self) -> bytes:
        """16 bytes that name the device; stable over restarts on the same endpoint and host."""
        return self._native.uuid()

    @property
    def epoch(self) -> int:
        """Tells the starts of a device apart."""
        return self._native.epoch()

    def connect(self, endpoint: str, timeout: float | None = 10.0) -> Channel:
        """Open a channel to the device at `endpoint`. Ctrl-C ends the waiting.

        While nobody listens there yet, it tries again until `timeout`. Every call makes a channel
        of its own.

        Parameters
        ----------
        endpoint : str
            The peer's `endpoint`, ``host:port``.
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        Unavailable, DeadlineExceeded
            If nobody answers, or no fabric reaches the peer; the message says why.
        Unauthenticated
            If the tokens differ.
        """
        return Channel(self._native.connect(endpoint, timeout))

    def accept(self, timeout: float | None = None) -> Channel:
        """Wait for the next channel that a peer opens to us. Ctrl-C ends the waiting.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If nobody connected in time.
        """
        return Channel(self._native.accept(timeout))

    def allocate(self, shape: Shape, dtype: npt.DTypeLike = "uint8") -> RegisteredArray:
        """Make an array that peers may read or alias, and nobody but this process may write.

        Parameters
        ----------
        shape : int or tuple of int
            Lengths of the dimensions.
        dtype : dtype
            Element type; no Python objects.

        Returns
        -------
        RegisteredArray
            With undefined contents.

        Raises
        ------
        ResourceExhausted
            If the device's `send_limit` is reached.
        """
        return RegisteredArray.allocate(self._native.allocate, shape, dtype)

    def contains(self, array: npt.NDArray[Any]) -> bool:
        """Whether `array` starts in memory from `allocate`, so that peers can alias it."""
        return self._native.contains(as_buffer(as_array("contains", array)))

    def publish(self, name: str, array: RegisteredArray) -> RegisteredArray:
        """Show `array` to every peer under `name`, with its shape and dtype.

        Replaces an earlier one of that name. A published array lives on until it is unpublished
        or the device closes. An array from `Channel.allocate` belongs to one peer: publish it on
        its channel.

        Returns
        -------
        RegisteredArray
            The same `array`.
        """
        array.publish_with(self._native.publish, name)
        return array

    def unpublish(self, name: str) -> None:
        """Take a name back. Arrays that peers have opened stay open."""
        self._native.unpublish(name)

    def stats(self) -> DeviceStats:
        """Count what the device did so far."""
        counts: dict[str, Any] = dict(self._native.stats())
        counts["send"] = MemoryStats(**counts["send"])
        counts["receive"] = MemoryStats(**counts["receive"])
        counts["choices"] = tuple(counts["choices"])
        return DeviceStats(**counts)

    def close(self, timeout: float | None = 1.0) -> None:
        """Close every channel, then the device. Closing twice is fine.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for peers to settle; None waits for ever.

        Raises
        ------
        PeerSilent
            If a peer did not settle. All is released nevertheless, except memory that this peer
            may still touch.
        """
        self._native.close(timeout)

    def __repr__(self) -> str:
        return f"<Device at {self.endpoint}>"
