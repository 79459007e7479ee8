"""Device: what a process opens to reach others and be reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import seconds, text
from farwrite.array import RegisteredArray, registered
from farwrite.channel import Channel
from farwrite.closing import Closing
from farwrite.description import Shape
from farwrite.errors import FailedPrecondition
from farwrite.lifetime import close_at_exit
from farwrite.metrics import serve, serve_given, stop_serving
from farwrite.options import (
    DEFAULT_TOKEN,
    DefaultToken,
    HugePages,
    device_options,
    given_options,
)
from farwrite.payload import as_array, as_buffer
from farwrite.registration import MemoryRegistration
from farwrite.stats import AdapterStats, DeviceStats, MemoryStats


class Device(Closing):
    """What a process opens: its fabrics, its memory, its pollers and one listening endpoint.

    Any thread may call anything at any time. A context manager that closes at the end. A forked
    child cannot use its parent's device: it gets `Forked`, and opens its own. It reads its parent's
    arrays, in a private view of their memory (docs/explanation/fork.md).

    Parameters
    ----------
    listen : str
        Where peers reach this device, ``host:port``. Port 0, the default, picks a free one; see
        `endpoint`.
    port : int
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
    token : str, bytes or None
        Secret that both sides must prove before any memory is exposed. By default a cookie in a
        file that only this user can read: so processes of other users are refused. It holds on the
        loopback; at other addresses give all peers one secret, or None, which admits every process
        that reaches the address.
    encrypt : bool
        Encrypt what leaves the host, by TLS 1.3 under keys made from `token`, which must be given,
        or FARWRITE_TOKEN_FILE: names and descriptors always, bytes over tcp. Both sides must say
        so. Memory that is shared with a process of the same host stays as it is. Needs OpenSSL 3
        (``libssl.so.3``).
    send_limit, receive_limit : int
        Bytes of memory that peers may read, and that peers may write, all peers together.
    send_limit_per_peer, receive_limit_per_peer : int
        The same for a single peer; by default no less than for all.
    segment_bytes, receive_segment_bytes : int
        Bytes by which each of the two grows.
    huge_pages : {"off", "transparent", "explicit"}
        Huge pages for that memory; "explicit" fails if the machine has none reserved.
    prefault : bool
        Take pages from the kernel when memory grows, not at its first use, which is far slower.
    numa_node : int
        Bind the memory to this node; -1 leaves placement to the kernel.
    detection_time : float
        Seconds after which a peer that says nothing counts as silent: quarantined, not dead.
    handshake_timeout : float
        Seconds that one connection's handshake may take, from either side.
    data_port : int
        Where the tcp fabric listens, on the host of `listen`; 0 picks a free port.
    host_timeout : float
        Seconds without an acknowledgement from a peer's host after which the peer is given up.
    verbs_device, verbs_port, verbs_gid_index : str, int, int
        The RDMA device that the verbs fabric uses, its port, and the place in the GID table.
    verbs_* : int or bool
        How the verbs fabric drives it; docs/reference/options.md and docs/how-to/rdma.md say when
        to change one.
    metrics : str
        Serve the metrics there, as `serve_metrics` does.

    A keyword that is not given, or None (but for `token`), is taken from the environment: `lanes`
    from FARWRITE_LANES, and so on. Failing that it has the default of
    docs/reference/options.md, which ``farwrite options`` prints.

    Raises
    ------
    InvalidArgument
        If an option is no valid value; the message names it, or its variable.
    AlreadyExists
        If the port, or that of `metrics`, is taken.
    Unauthenticated
        If `listen` is not on the loopback and there is no `token`.
    PermissionDenied, FailedPrecondition
        If others can read the file of the token, or it holds none; the message says what to do.
    Unavailable
        If that file can be neither read nor made. With `encrypt`, if OpenSSL cannot be loaded; the
        message names the package.

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
        fabrics: Sequence[str] | None = None,
        lanes: SupportsIndex | None = None,
        pollers: SupportsIndex | None = None,
        spin: float | None = None,
        token: str | bytes | DefaultToken | None = DEFAULT_TOKEN,
        encrypt: bool | None = None,
        send_limit: SupportsIndex | None = None,
        send_limit_per_peer: SupportsIndex | None = None,
        receive_limit: SupportsIndex | None = None,
        receive_limit_per_peer: SupportsIndex | None = None,
        segment_bytes: SupportsIndex | None = None,
        receive_segment_bytes: SupportsIndex | None = None,
        huge_pages: HugePages | None = None,
        prefault: bool | None = None,
        numa_node: SupportsIndex | None = None,
        detection_time: float | None = None,
        handshake_timeout: float | None = None,
        data_port: SupportsIndex | None = None,
        host_timeout: float | None = None,
        verbs_device: str | None = None,
        verbs_port: SupportsIndex | None = None,
        verbs_gid_index: SupportsIndex | None = None,
        verbs_send_queue_depth: SupportsIndex | None = None,
        verbs_receive_credits: SupportsIndex | None = None,
        verbs_chunk_bytes: SupportsIndex | None = None,
        verbs_signal_every: SupportsIndex | None = None,
        verbs_inline_bytes: SupportsIndex | None = None,
        verbs_retry_count: SupportsIndex | None = None,
        verbs_rnr_retry_count: SupportsIndex | None = None,
        verbs_relaxed_ordering: bool | None = None,
        verbs_use_immediate: bool | None = None,
        metrics: str | None = None,
    ) -> None:
        keywords = dict(locals())
        del keywords["self"]
        given = given_options(keywords)
        self._native = _farwrite.Device(device_options(given))
        self._closed = False
        close_at_exit(self._native)
        if "metrics" in given:
            try:
                serve_given(self._native, given["metrics"])
            except BaseException:
                self._native.close(0)
                raise

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
            If the tokens differ; the message says where either comes from. Or if `endpoint` is not
            on the loopback and this device has no `token`.
        """
        address = text("connect", "endpoint", endpoint)
        native = self._native.connect(address, seconds("connect", timeout))
        return Channel(native, self._native)

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
        return Channel(self._native.accept(seconds("accept", timeout)), self._native)

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

    def register(self, memory: object) -> MemoryRegistration:
        """Register memory of your own, so that transfers need not do so each time.

        Only verbs has use for that: its adapter reaches registered memory alone, and registers what
        it is given for every transfer and only for that. Peers still cannot reach the memory; see
        `allocate` for that. What `allocate` gives is registered already.

        Parameters
        ----------
        memory : array, buffer or DLPack exporter
            C-contiguous, on the CPU. If it is read-only, only transfers from it are spared.

        Returns
        -------
        MemoryRegistration
            Release it, or use it in a ``with`` block.

        Raises
        ------
        ResourceExhausted
            If the process may not lock as much memory (``ulimit -l``); the message says what to do.

        Examples
        --------
        >>> import numpy as np
        >>> import farwrite as fw
        >>> batch = np.zeros((64, 1024), "float32")
        >>> with fw.Device() as device, device.register(batch) as registration:
        ...     registration.nbytes
        262144
        """
        return MemoryRegistration(self._native, memory)

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
        registered(array).publish_with(self._native.publish, name)
        return array

    def unpublish(self, name: str) -> None:
        """Take a name back. Arrays that peers have opened stay open."""
        self._native.unpublish(text("unpublish", "name", name))

    def stats(self) -> DeviceStats:
        """Count what the device did so far."""
        counts: dict[str, Any] = dict(self._native.stats())
        counts["send"] = MemoryStats(**counts["send"])
        counts["receive"] = MemoryStats(**counts["receive"])
        counts["adapters"] = AdapterStats(**counts["adapters"])
        counts["choices"] = tuple(counts["choices"])
        return DeviceStats(**counts)

    def metrics(self) -> str:
        """Write all counters, also those of every channel, in the Prometheus text format."""
        return self._native.metrics()

    def serve_metrics(self, address: str = "127.0.0.1:0") -> str:
        """Answer ``GET /metrics`` over HTTP until the device closes.

        The devices of a process may share an address: then the answer has the metrics of all.

        Parameters
        ----------
        address : str
            ``host:port``, or a port of 127.0.0.1. Port 0 picks a free one. Whoever reaches it may
            read the metrics: there is no password.

        Returns
        -------
        str
            The URL.

        Raises
        ------
        AlreadyExists
            If another process has the port.
        InvalidArgument, Unavailable
            If it is no address, or none of this machine.
        FailedPrecondition
            If the device is closed.
        """
        url = serve(self._native, address)
        if self._closed:  # asked afterwards, because another thread may be closing it
            stop_serving(self._native)
            raise FailedPrecondition(
                f"serve metrics at {address}: the device is closed; open another one"
            )
        return url

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
        DeadlineExceeded
            If a handler, or another thread's call, has not returned. The device takes no calls any
            more and releases nothing yet; close it again once they have returned.
        FailedPrecondition
            If a handler calls it.
        """
        limit = seconds("close", timeout)
        self._closed = True
        stop_serving(self._native)
        self._native.close(limit)

    def __repr__(self) -> str:
        return f"<Device at {self.endpoint}>"
