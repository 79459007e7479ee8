"""Server: the process that holds the segments of a box."""

from __future__ import annotations

import os
from typing import Any, SupportsIndex

from farwrite import _farwrite
from farwrite.arguments import flag, number, seconds, shown, whole_number
from farwrite.box.client import Client, open_client
from farwrite.box.device_keywords import parse_keywords
from farwrite.box.publisher import DraftTarget, Publisher, Takeover
from farwrite.box.segment import Segment
from farwrite.box.stats import ServerStats
from farwrite.errors import Error, FailedPrecondition, InvalidArgument, ending
from farwrite.lifetime.at_exit import close_at_exit
from farwrite.lifetime.closing import Closing
from farwrite.metrics.endpoint import serve as serve_metrics
from farwrite.metrics.endpoint import serve_given, stop_serving
from farwrite.units import parse_seconds, parse_size

Size = SupportsIndex | str
_OWN_KEYWORDS = ("memory", "pool", "threads", "snapshot", "snapshot_every", "restore")


def serve(
    *,
    listen: str | None = None,
    memory: Size = "1G",
    pool: Size | None = None,
    threads: SupportsIndex = 0,
    snapshot: str | bytes | os.PathLike[str] | None = None,
    snapshot_every: float | str | None = None,
    restore: bool = False,
    **device: Any,
) -> Server:
    """Serve a box in this process.

    Parameters
    ----------
    listen : str
        Address at which clients connect, ``host:port``. The default is that of ``FARWRITE_LISTEN``,
        or else a free port of the loopback. Another address needs a `token`.
    memory : int or str
        The most memory for segments and for changes on their way, in bytes or as "8G"; "2M" or
        more.
    pool : int or str
        Memory that is taken and registered before the first client comes, at most `memory`. More is
        taken on demand. By default "64M", or `memory` if that is less.
    threads : int
        Threads that share the arithmetic of one large change; 0 takes as many as processors.
    snapshot : str, bytes or path
        Folder in which snapshots are written. By default none are. Without `restore` it must hold
        none yet, because newer ones replace older ones, and it is created if only its last folder
        is missing.
    snapshot_every : float or str
        Time from one snapshot to the next, in seconds or as "60s". By default, and with 0, only
        `Server.snapshot` writes them.
    restore : bool
        Start with the newest whole snapshot in `snapshot`. Its segments keep their keys.
    **device
        The keywords of `farwrite.Device`: ``token``, ``fabrics``, ``metrics``, ...

    Returns
    -------
    Server
        A context manager. The end of the ``with`` block closes it.

    Raises
    ------
    AlreadyExists
        If the port is in use.
    Unauthenticated
        If `listen` is not on the loopback and there is no `token`.
    NotFound
        With `restore`, if no snapshot in the folder is whole; or the folder cannot be created.
    FailedPrecondition
        Without `restore`, if the folder holds snapshots.
    ResourceExhausted
        If the snapshot has more than `memory`, or the machine has not the memory of `pool`.
    InvalidArgument
        If a value is not valid; the message names it.
    """
    if listen is not None:
        device["listen"] = listen
    options, given = parse_keywords("serve", device, _OWN_KEYWORDS)
    folder = _folder(snapshot)
    restore = flag("serve", "restore", restore)
    every = _interval(snapshot_every)
    if not folder and (restore or every):
        raise InvalidArgument(
            "serve: restore and snapshot_every need snapshot, the folder; give it"
        )
    most = _bytes("memory", memory)
    native = _farwrite.BoxServer.serve(
        options,
        most,
        min(_POOL, most) if pool is None else _bytes("pool", pool),
        whole_number("serve", "threads", threads, 0, 1024),
        folder,
        every,
        restore,
    )
    close_at_exit(native)
    shared = {name: option.value for name, option in given.items()}
    server = Server(native, shared, keeps_snapshots=bool(folder))
    if "metrics" in given:
        try:
            serve_given(native, given["metrics"])
        except BaseException:
            native.close(0)
            raise
    return server


class Server(
    Closing,
    elsewhere="send its endpoint, and connect in the other process: farwrite.box.connect(endpoint)",
):
    """The process that holds the segments of a box. `serve` creates it.

    Any thread may call any method at any time. A context manager: the end of the ``with`` block
    closes the server.

    The constructor is internal: use `serve`.
    """

    def __init__(
        self, native: _farwrite.BoxServer, device: dict[str, Any], *, keeps_snapshots: bool
    ) -> None:
        self._native = native
        self._keeps_snapshots = keeps_snapshots
        # A client of this process reaches the server as others do.
        self._device = {name: device[name] for name in _SHARED if name in device}
        # At most one. A built-in dict, each step of which is whole, and no lock: a signal handler
        # that closes the server may come at any moment of a call in the same thread.
        self._own: dict[str, Client] = {}

    @property
    def endpoint(self) -> str:
        """The address at which clients connect, ``host:port``, with the actual port.

        The host is that of `listen`. Of a server that listens on every address (0.0.0.0), give
        clients a name or an address of the host instead.
        """
        return self._native.endpoint()

    def connect(self, *, timeout: float | None = 30.0, **device: Any) -> Client:
        """Connect a client of this process. The parameters are those of `farwrite.box.connect`.

        The client has the server's token, fabrics and encryption, unless they are given. It keeps
        the server open.

        Raises
        ------
        FailedPrecondition
            If the server is closed.
        """
        self._check_open("connect")
        try:
            return open_client(self.endpoint, timeout, {**self._device, **device}, self._native)
        except Error:
            self._check_open("connect")  # closed meanwhile
            raise

    def publisher(
        self,
        name: str,
        like: Any,
        *,
        takeover: Takeover = False,
        buffers: SupportsIndex = 4,
    ) -> Publisher:
        """Publish versions of a model from the server's process, with one copy for each version.

        Subscribers connect to `endpoint`. The parameters and the errors are those of
        `Client.publisher`.
        """

        def target(client: Client, segment: Segment) -> DraftTarget:
            return DraftTarget(self._native, client, segment)

        self._native.stats()  # refuses in a forked child, which could connect, and not publish
        return Publisher(self._client(), name, like, target, takeover=takeover, buffers=buffers)

    def _client(self) -> Client:
        self._check_open("publisher", closed=ending())
        own = self._own.get("client")
        if own is not None:
            return own
        try:
            # It does not hold the server, which has it: so the two go as soon as the program drops
            # them.
            made = open_client(self.endpoint, 30.0, self._device, self._native, holds=False)
        except Error:
            self._check_open("publisher")  # closed meanwhile
            raise
        own = self._own.setdefault("client", made)
        if own is not made:  # another thread was faster
            made.close()
        if self._closed:  # perhaps before this client was there to be closed
            self._own.pop("client", None)
            del made, own  # it closes, unless another thread has a publisher by it
            self._check_open("publisher", closed=True)
        return own

    def _check_open(self, operation: str, *, closed: bool = False) -> None:
        if self._closed or closed:
            raise FailedPrecondition(f"{operation}: the server is closed; serve another one")

    def snapshot(self) -> None:
        """Write a snapshot now. Each segment is in it with one version.

        When the call returns, the snapshot is whole and on the disk. Ctrl-C interrupts the wait;
        the snapshot is then written on.

        Raises
        ------
        FailedPrecondition
            If the server has no folder for snapshots.
        NotFound
            If the folder was removed.
        AlreadyExists
            If the folder was replaced, and another server has the new one, or snapshots are in it.
        ResourceExhausted, Unavailable, PermissionDenied
            If the disk is full or fails, or the folder may not be written. The snapshot before
            stays.
        """
        self._native.snapshot()

    def stats(self) -> ServerStats:
        """Return the counters of the server."""
        return ServerStats(**self._native.stats())

    def metrics(self) -> str:
        """Return the counters of the server and its device in the Prometheus text format."""
        return self._native.metrics()

    def serve_metrics(self, address: str = "127.0.0.1:0") -> str:
        """Answer ``GET /metrics`` over HTTP until the server closes, and return the URL.

        The parameter and the errors are those of `farwrite.Device.serve_metrics`.
        """
        url = serve_metrics(self._native, address)
        try:  # afterwards, because another thread may be closing it
            self._check_open(f"serve metrics at {address}")
        except FailedPrecondition:
            stop_serving(self._native)
            raise
        return url

    def close(self, timeout: float | None = 1.0, *, snapshot: bool = False) -> None:
        """End every connection and free the memory. Closing twice is allowed.

        Segments are gone, except for what the last snapshot holds.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for clients to settle; None waits for ever.
        snapshot : bool
            Write a last snapshot once no client can change a segment any more: every change that
            a client knows to be applied is in it. After a `Server.snapshot` before the end, clients
            could still change segments. Ctrl-C interrupts the wait; the server closes nevertheless.

        Raises
        ------
        FailedPrecondition
            If a handler of the server's own client calls it; and with `snapshot`, if the server has
            no folder for snapshots. It then serves on.
        NotFound, ResourceExhausted, Unavailable, PermissionDenied, AlreadyExists
            With `snapshot`, as `Server.snapshot`. The server is closed nevertheless.
        """
        limit = seconds("close", timeout)
        snapshot = flag("close", "snapshot", snapshot)
        if snapshot and not self._keeps_snapshots:
            raise FailedPrecondition(
                "close: the server has no folder for a last snapshot; serve with snapshot=, or"
                " close without one"
            )
        refused = False
        try:
            with self._closing():
                self._close_own(limit)
        except FailedPrecondition:
            refused = True
            raise
        finally:
            if not refused:
                stop_serving(self._native)
                self._native.close(limit, snapshot)

    def _close_own(self, limit: float | None) -> None:
        own = self._own.get("client")
        if own is not None:
            own.close(limit)  # in a callback of this client it raises, and the client stays
            self._own.pop("client", None)

    def _facts(self) -> str:
        return f"of a box at {self.endpoint}"


_SHARED = ("token", "fabrics", "encrypt")
_POOL = 64 << 20


def _bytes(name: str, size: Size) -> int:
    if isinstance(size, str):
        try:
            size = parse_size(size)
        except ValueError as error:
            raise InvalidArgument(f"serve: {name}: {error}") from None
    return whole_number("serve", name, size, 0, 2**63 - 1)


def _folder(snapshot: str | bytes | os.PathLike[str] | None) -> str:
    if snapshot is None:
        return ""
    try:
        folder = os.fsdecode(snapshot)
    except TypeError:
        raise InvalidArgument(
            f"serve: snapshot {shown(snapshot)} is not a path; give str, bytes or a Path"
        ) from None
    if not folder:  # it would mean no snapshots, to a user who asked for them
        raise InvalidArgument(
            "serve: snapshot is an empty path, as an unset shell variable gives it; name a folder,"
            " or leave snapshot out to keep none"
        )
    if "\0" in folder:
        raise InvalidArgument(
            f"serve: snapshot {shown(folder)} has a NUL, which no path can have; leave it out"
        )
    return folder


def _interval(every: float | str | None) -> float:
    """Return the seconds of `snapshot_every`; 0 if no snapshots are written by themselves."""
    if every is None:
        return 0.0
    try:
        return parse_seconds(every if isinstance(every, str) else str(number(every)))
    except ValueError:
        raise InvalidArgument(
            f"serve: snapshot_every {shown(every)} is not a length of time; give seconds >= 0, or"
            " text such as '60s'"
        ) from None
