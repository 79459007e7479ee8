"""Device: what a process opens to connect to peers and to accept their channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import seconds, text
from farwrite.channel import Channel
from farwrite.errors import FailedPrecondition
from farwrite.lifetime.at_exit import close_at_exit
from farwrite.lifetime.closing import Closing
from farwrite.memory.array import RegisteredArray, registered
from farwrite.memory.description import Shape
from farwrite.memory.payload import as_array, as_buffer
from farwrite.memory.registration import MemoryRegistration
from farwrite.metrics.endpoint import serve, serve_given, stop_serving
from farwrite.metrics.stats import AdapterStats, DeviceStats, GpuStats, MemoryStats
from farwrite.options.device import (
    DEFAULT_TOKEN,
    DefaultToken,
    HugePages,
    checks_keywords,
    device_options,
    given_options,
)
from farwrite.options.docstring import add_parameters
from farwrite.options.verbs import VerbsOptions


@add_parameters
class Device(Closing, elsewhere="open a Device in the other process"):
    """A process's fabrics, registered memory, pollers and listening endpoint.

    Any thread may call any method at any time. A context manager: the end of the ``with`` block
    closes the device. Without `close`, it closes when the program has neither the device nor a
    channel of it. An array of the device does not keep it open: keep the device as long as peers
    use the array.

    A forked child cannot use its parent's device: calls raise `Forked`, and the child opens its
    own. The child can read its parent's arrays, in a private view of their memory
    (docs/explanation/fork.md).

    Parameters
    ----------
    {options}
    verbs : VerbsOptions; default: none
        The options of the fabric verbs.

    The value of a keyword that is not given, or is None, comes from the environment: `lanes` from
    FARWRITE_LANES, and so on. `token` is the exception: its None means no token. If the variable is
    not set, the default applies. ``farwrite options`` and docs/reference/options.md list the
    variables and defaults.

    Raises
    ------
    InvalidArgument
        If the value of an option is not valid; the message names the option or its variable.
    AlreadyExists
        If the port, or the port of `metrics`, is in use.
    Unauthenticated
        If `listen` is not on the loopback and there is no `token`.
    PermissionDenied, FailedPrecondition
        If other users can read the token file, or it holds no token; the message gives the remedy.
    Unavailable
        If the token file can be neither read nor created. With `encrypt`, if OpenSSL cannot be
        loaded; the message names the package.
    Unsupported
        If the kernel refuses `numa_node`.

    Examples
    --------
    >>> import farwrite as fw
    >>> with fw.Device() as device:
    ...     weights = device.publish("weights", device.allocate((1024, 1024), "float32"))
    ...     weights.array[:] = 1
    """

    @checks_keywords
    def __init__(
        self,
        *,
        listen: str | None = None,
        port: SupportsIndex | None = None,
        port_range: str | None = None,
        name: str | None = None,
        fabrics: Sequence[str] | None = None,
        lanes: SupportsIndex | None = None,
        pollers: SupportsIndex | None = None,
        spin: float | str | None = None,
        token: str | bytes | DefaultToken | None = DEFAULT_TOKEN,
        encrypt: bool | None = None,
        send_limit: SupportsIndex | str | None = None,
        send_limit_per_peer: SupportsIndex | str | None = None,
        receive_limit: SupportsIndex | str | None = None,
        receive_limit_per_peer: SupportsIndex | str | None = None,
        segment_bytes: SupportsIndex | str | None = None,
        receive_segment_bytes: SupportsIndex | str | None = None,
        huge_pages: HugePages | None = None,
        prefault: bool | None = None,
        numa_node: SupportsIndex | None = None,
        memory_idle_time: float | str | None = None,
        detection_time: float | str | None = None,
        handshake_timeout: float | str | None = None,
        data_port: SupportsIndex | None = None,
        host_timeout: float | str | None = None,
        metrics: str | None = None,
        verbs: VerbsOptions | None = None,
    ) -> None:
        keywords = dict(locals())
        del keywords["self"]
        given = given_options(keywords)
        self._native = _farwrite.Device(device_options(given))
        close_at_exit(self._native)
        if "metrics" in given:
            try:
                serve_given(self._native, given["metrics"])
            except BaseException:
                self._native.close(0)
                raise

    @property
    def endpoint(self) -> str:
        """The address at which peers connect, ``host:port``, with the actual port.

        The host is that of `listen`. Of a device that listens on every address (0.0.0.0), give
        peers a name or an address of the host instead.
        """
        return self._native.endpoint()

    @property
    def uuid(self) -> bytes:
        """16 bytes that identify the device, stable over restarts on the same endpoint and host."""
        return self._native.uuid()

    @property
    def epoch(self) -> int:
        """A number that distinguishes the starts of a device."""
        return self._native.epoch()

    def connect(self, endpoint: str, timeout: float | None = 10.0) -> Channel:
        """Open a channel to the device at `endpoint`.

        While no device listens there, or the host does not resolve, `connect` tries again until
        `timeout`. Every call opens a new channel. In the main thread, Ctrl-C interrupts the wait;
        in another thread, `close` of the device does.

        Parameters
        ----------
        endpoint : str
            The peer's `endpoint`, ``host:port``.
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        Unavailable, DeadlineExceeded
            If no device answers, the host does not resolve, or no fabric reaches the peer; the
            message gives the cause.
        Unauthenticated
            If the tokens differ; the message names the source of each. Also raised if `endpoint`
            is not on the loopback and this device has no `token`.
        """
        address = text("connect", "endpoint", endpoint)
        native = self._native.connect(address, seconds("connect", timeout))
        return Channel(native, self._native)

    def accept(self, timeout: float | None = None) -> Channel:
        """Wait for the next channel that a peer opens to this device.

        In the main thread, Ctrl-C interrupts the wait; in another thread, `close` of the device
        does. Without either, and without a timeout, a program waits for that thread at its end.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If no peer connected in time.
        """
        return Channel(self._native.accept(seconds("accept", timeout)), self._native)

    def allocate(
        self, shape: Shape, dtype: npt.DTypeLike = "uint8", *, kind: str = "host"
    ) -> RegisteredArray:
        """Allocate an array that peers may read or alias, and that only this process may write.

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
            If the device's `send_limit` is reached, or the GPU is full.
        Unsupported
            If no fabric of the device reaches GPUs.
        Unavailable
            If the CUDA driver cannot be opened.
        InvalidArgument
            If there is no such GPU.
        """
        place = text("allocate", "kind", kind)
        return RegisteredArray.allocate(
            lambda needed: self._native.allocate(needed, place), shape, dtype
        )

    def contains(self, array: npt.NDArray[Any]) -> bool:
        """Whether `array` starts in memory from `allocate`, which peers can alias."""
        return self._native.contains(as_buffer(as_array("contains", array)))

    def register(self, memory: object) -> MemoryRegistration:
        """Register the caller's memory, so that transfers do not register it each time.

        Only the verbs fabric needs this: its adapter accesses registered memory only, and otherwise
        registers memory for each transfer. Registration does not let peers access the memory; use
        `allocate` for that. Memory from `allocate` is already registered.

        Parameters
        ----------
        memory : array, buffer or DLPack exporter
            C-contiguous, on the CPU. Registering read-only memory helps only transfers from it.

        Returns
        -------
        MemoryRegistration
            Release it, or use it in a ``with`` block. It keeps `memory` alive.

        Raises
        ------
        ResourceExhausted
            If the process may not lock that much memory (``ulimit -l``); the message gives the
            remedy.

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
        """Publish `array` to every peer under `name`, with its shape and dtype.

        The call replaces an earlier array of that name. The array stays published until
        `unpublish`, or until the device closes. An array from `Channel.allocate` belongs to one
        peer: publish it on its channel.

        Returns
        -------
        RegisteredArray
            The same `array`.
        """
        registered(array).publish_with(self._native.publish, name)
        return array

    def unpublish(self, name: str) -> None:
        """Withdraw a published name. Arrays that peers have opened stay open."""
        self._native.unpublish(text("unpublish", "name", name))

    def stats(self) -> DeviceStats:
        """Return the counters of the device."""
        counts: dict[str, Any] = dict(self._native.stats())
        counts["send"] = MemoryStats(**counts["send"])
        counts["receive"] = MemoryStats(**counts["receive"])
        counts["adapters"] = AdapterStats(**counts["adapters"])
        counts["gpu"] = GpuStats(**counts["gpu"])
        counts["choices"] = tuple(counts["choices"])
        return DeviceStats(**counts)

    def metrics(self) -> str:
        """Return the counters of the device and its channels in the Prometheus text format."""
        return self._native.metrics()

    def serve_metrics(self, address: str = "127.0.0.1:0") -> str:
        """Answer ``GET /metrics`` over HTTP until the device closes.

        The devices of a process may share an address. The answer then has the metrics of all of
        them.

        Parameters
        ----------
        address : str
            ``host:port``, or a port of 127.0.0.1. Port 0 picks a free port. Every process that
            reaches the address can read the metrics: there is no password.

        Returns
        -------
        str
            The URL.

        Raises
        ------
        AlreadyExists
            If another process uses the port.
        InvalidArgument, Unavailable
            If `address` is not an address, or not an address of this machine.
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
        """Close every channel, then the device. Closing twice is allowed.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for peers to settle; None waits for ever.

        Raises
        ------
        PeerSilent
            If a peer did not settle in time. Everything is released, except memory that this peer
            may still access.
        DeadlineExceeded
            If a handler, or another thread's call, has not returned in time. The device accepts no
            further calls and releases nothing yet. Call `close` again when these have returned.
        FailedPrecondition
            If a handler calls it.
        """
        limit = seconds("close", timeout)
        try:
            with self._closing():
                self._native.close(limit)
        finally:
            if self._closed:  # not if a handler called it
                stop_serving(self._native)

    def _facts(self) -> str:
        return f"at {self.endpoint}"
