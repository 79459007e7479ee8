"""Client: a connection to a box."""

from __future__ import annotations

from typing import Any, SupportsIndex

import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import flag, seconds, text, whole_number
from farwrite.box.device_keywords import parse_keywords
from farwrite.box.element import layout_like, layout_of, parse_layout, plain_layout, type_name
from farwrite.box.event import Event
from farwrite.box.publisher import Publisher, Takeover, WriteTarget
from farwrite.box.segment import Segment, SegmentInfo
from farwrite.box.stats import ClientStats
from farwrite.box.subscriber import Subscriber
from farwrite.box.updates import Watch
from farwrite.errors import InvalidArgument, ProtocolError
from farwrite.lifetime.at_exit import close_at_exit
from farwrite.lifetime.closing import Closing
from farwrite.long_wait import LongWait
from farwrite.memory.array import RegisteredArray
from farwrite.memory.description import Shape
from farwrite.metrics.stats import Peer
from farwrite.options.option import from_environment
from farwrite.options.table import find_option


def connect(endpoint: str, *, timeout: float | None = 30.0, **device: Any) -> Client:
    """Connect to a box. While no server listens there, or the host has no name, try again.

    In the main thread, Ctrl-C interrupts the wait. In another thread only `timeout` ends it.

    Parameters
    ----------
    endpoint : str
        The server's `Server.endpoint`, ``host:port``.
    timeout : float or None
        Seconds for the connection, and for calls that wait for the server and have no timeout of
        their own. None waits for ever.
    **device
        The keywords of `farwrite.Device`: ``token``, ``fabrics``, ``send_limit``, ... The ports in
        ``FARWRITE_LISTEN`` and ``FARWRITE_DATA_PORT`` are the server's; a client takes free ones. A
        client serves no metrics, also with ``FARWRITE_METRICS``; `Client.stats` has its counters.

    Returns
    -------
    Client
        A context manager. The end of the ``with`` block closes it.

    Raises
    ------
    Unavailable, DeadlineExceeded
        If no server answers, or only a device that is no box; the message gives the cause.
    Unauthenticated
        If the tokens differ.

    Examples
    --------
    >>> import numpy as np
    >>> import farwrite as fw
    >>> with fw.box.serve() as server, fw.box.connect(server.endpoint) as box:
    ...     weights = box.create("weights", (1024,), "float32")
    ...     weights.accumulate(np.ones(1024, "float32"), scale=0.5)
    ...     float(weights.read()[0])
    1
    0.5
    """
    return open_client(endpoint, timeout, device)


def open_client(
    endpoint: str,
    timeout: float | None,
    device: dict[str, Any],
    server: _farwrite.BoxServer | None = None,
    *,
    holds: bool = True,
) -> Client:
    """Connect as `connect`; with `holds`, the client keeps `server`, of this process. Internal.

    The wait ends when `server` closes.
    """
    if "metrics" in device:
        raise InvalidArgument(
            "connect: a client of a box serves no metrics; give metrics= to its server"
        )
    options, _ = parse_keywords("connect", _at_free_ports(device), ("timeout",))
    limit = seconds("connect", timeout)
    address = text("connect", "endpoint", endpoint)
    native = _farwrite.BoxClient.connect(options, address, limit, server)
    close_at_exit(native)
    return Client(native, limit, server if holds else None)


class Client(Closing, elsewhere="connect in the other process: farwrite.box.connect(endpoint)"):
    """A connection to a box. `connect` and `Server.connect` create it.

    Any thread may call any method at any time. A context manager: the end of the ``with`` block
    closes the connection. Without `close`, it closes when the program has neither the client nor a
    segment, a publisher or another object of it.

    The constructor is internal: use `connect`.
    """

    def __init__(
        self,
        native: _farwrite.BoxClient,
        timeout: float | None,
        server: _farwrite.BoxServer | None,
    ) -> None:
        self._native = native
        self._server = server  # after the client, which so goes first
        self.timeout = timeout  # of a segment's calls without one of their own; internal
        self.watches: set[Watch] = set()  # the open ones of all segments; internal

    # --- Segments.

    def create(
        self,
        name: str,
        shape: Shape | None = None,
        dtype: npt.DTypeLike | None = None,
        *,
        like: object = None,
        description: str = "",
        exclusive: bool = True,
        buffers: SupportsIndex = 4,
        temporary: bool = False,
    ) -> Segment:
        """Create a segment of zeros, and attach it.

        Parameters
        ----------
        name : str
            At most 255 bytes of UTF-8.
        shape : int or tuple of int
            Lengths of the dimensions.
        dtype : dtype
            The server has arithmetic for float64, float32 (the default), float16, "bfloat16",
            int64 and int32. Other types can be read and written.
        like : array, optional
            Take shape and dtype from this array instead. Its elements are not written.
        description : str
            At most 32 MiB, for those who attach the segment: `Segment.description` has its bytes in
            UTF-8. Only of a dtype that the server has arithmetic for.
        exclusive : bool
            Whether it is an error if the name is taken. If not, a segment of that name, shape and
            dtype is attached.
        buffers : int
            The most buffers, 2 to 64. One is kept for the next change, so ``buffers - 1`` versions
            can be leased at a time. The server takes a buffer when it is needed.
        temporary : bool
            Free the segment when the last client that attached it has left, or died.

        Raises
        ------
        AlreadyExists
            If the name is taken, and `exclusive`.
        InvalidArgument
            If a segment of that name has another shape or dtype.
        ResourceExhausted
            If the server's `memory` is used up.
        """
        if like is not None and (shape is not None or dtype is not None):
            raise InvalidArgument("create: like gives shape and dtype; leave these two out")
        if like is None and shape is None:
            raise InvalidArgument("create: it has no shape; give shape, or an array as like")
        if like is not None:
            layout = layout_like("create", like)
        else:
            layout = layout_of(
                "create", () if shape is None else shape, "float32" if dtype is None else dtype
            )
        own = layout.description()
        text("create", "description", description)
        if own and description:
            raise InvalidArgument(
                f"create: a segment of {layout.name} has no room for a description, because it"
                " describes its dtype there; use create_bytes"
            )
        native = self._create(
            name, layout.element, layout.dims(), own or description,
            exclusive=exclusive, buffers=buffers, temporary=temporary,
        )  # fmt: skip
        segment = Segment(native, self)
        if not segment.layout.same_as(layout):
            raise InvalidArgument(
                f"create: the box has a segment '{name}' of shape {segment.shape} and dtype"
                f" {segment.layout.name}; use another name, or that shape and dtype"
            )
        return segment

    def create_bytes(
        self,
        name: str,
        nbytes: SupportsIndex,
        description: str = "",
        *,
        exclusive: bool = True,
        buffers: SupportsIndex = 4,
        temporary: bool = False,
    ) -> Segment:
        """Create a segment of plain bytes, with a description of at most 32 MiB.

        The other parameters and the errors are those of `create`.
        """
        text("create_bytes", "name", name)
        count = whole_number("create_bytes", "nbytes", nbytes, 0, 2**63 - 1)
        checked = text("create_bytes", "description", description)
        try:
            # A segment that no client can attach is one that no client can free.
            parse_layout(_farwrite.BoxElement.BYTES, [count], checked.encode(), name)
        except ProtocolError as error:
            raise InvalidArgument(
                "create_bytes: the description begins as that of an array does, but is not one"
                f" ({error}); begin it with other text"
            ) from None
        native = self._create(
            name, _farwrite.BoxElement.BYTES, (count,), checked,
            exclusive=exclusive, buffers=buffers, temporary=temporary,
        )  # fmt: skip
        return Segment(native, self)

    def _create(
        self,
        name: str,
        element: _farwrite.BoxElement,
        dims: tuple[int, ...],
        description: str,
        *,
        exclusive: bool,
        buffers: SupportsIndex,
        temporary: bool,
    ) -> _farwrite.BoxSegment:
        most = _farwrite.BOX_MAX_BUFFERS
        return self._native.create(
            text("create", "name", name),
            element,
            list(dims),
            text("create", "description", description),
            whole_number("create", "buffers", buffers, 2, most),
            flag("create", "temporary", temporary),
            flag("create", "exclusive", exclusive),
        )

    def attach(self, segment: str | SupportsIndex, timeout: float | None = 10.0) -> Segment:
        """Attach a segment by its name or its key.

        Parameters
        ----------
        segment : str or int
            The name, or `Segment.key`.
        timeout : float or None
            With a name: seconds to wait until a client creates it; 0 fails at once, and None waits
            for ever. A wait of more than a second is logged.

        Raises
        ------
        NotFound
            If there is no such segment, or it was freed.
        DeadlineExceeded
            If none created it in time, or the server has not answered; the message says which.
        """
        limit = seconds("attach", timeout)
        if isinstance(segment, str):
            name = text("attach", "name", segment)
            native = LongWait(limit).call(lambda left: self._native.attach_name(name, left))
        else:
            key = whole_number("attach", "segment", segment, 0, 2**64 - 1)
            native = self._native.attach_key(key)
        return Segment(native, self)

    def event(self, name: str, *, temporary: bool = False) -> Event:
        """Attach the event of that name, or create it.

        Raises
        ------
        InvalidArgument
            If a segment of that name is not an event.
        """
        segment = self.create_bytes(name, 0, exclusive=False, buffers=2, temporary=temporary)
        return Event(segment)

    def list(self) -> list[SegmentInfo]:
        """Return the segments of the box, events among them."""
        return [_info(fields) for fields in self._native.list()]

    def array(self, shape: Shape, dtype: npt.DTypeLike = "float32") -> RegisteredArray:
        """Allocate memory that the server reads where it is.

        A change from such an array needs no copy in this process: ``segment.write(box.array(...))``
        or ``segment.accumulate(gradients)``. Other arrays are copied into such memory first.

        Returns
        -------
        RegisteredArray
            With undefined contents. Its ``array`` is the NumPy view; changes take either.

        Raises
        ------
        ResourceExhausted
            If the `send_limit` given to `connect` is reached.
        """
        return RegisteredArray.allocate(self._native.allocate, shape, dtype)

    # --- Models.

    def publisher(
        self,
        name: str,
        like: Any,
        *,
        takeover: Takeover = False,
        buffers: SupportsIndex = 4,
    ) -> Publisher:
        """Publish versions of a model under `name`. See `Publisher` for what it guarantees.

        Parameters
        ----------
        name : str
            At most 245 bytes of UTF-8.
        like : dict, list or tuple of arrays
            A model with the names, shapes and dtypes of all that will be published.
        takeover : bool or "force"
            True: go on with the versions of an earlier publisher that has ended, in a new epoch.
            "force": also of one that has not, for example because its process was stopped. It is
            fenced off: if it goes on, its `publish` raises `FailedPrecondition`.
        buffers : int
            ``buffers - 1`` versions can be leased by readers at a time; see `create`. A model of an
            earlier publisher keeps its number.

        Raises
        ------
        AlreadyExists
            If a living publisher has the name and `takeover` is not "force", or an earlier one had
            it and `takeover` is False.
        InvalidArgument
            If the earlier model has other names, shapes or dtypes.
        """
        return Publisher(self, name, like, WriteTarget, takeover=takeover, buffers=buffers)

    def subscribe(self, name: str, timeout: float | None = 10.0) -> Subscriber:
        """Read the versions of a model.

        Parameters
        ----------
        name : str
            The publisher's name.
        timeout : float or None
            Seconds to wait until a publisher starts; 0 fails at once, and None waits for ever. A
            wait of more than a second is logged.

        Raises
        ------
        NotFound, DeadlineExceeded
            If no process published under that name in time.
        InvalidArgument
            If the segment of that name holds no model.
        """
        return Subscriber(
            self.attach(text("subscribe", "name", name), timeout), self._native.describe
        )

    # --- The connection.

    @property
    def server(self) -> Peer:
        """The server, and the fabric that reaches it."""
        return Peer(**self._native.server())  # type: ignore[arg-type]

    def stats(self) -> ClientStats:
        """Return the counters of this client."""
        return ClientStats(**self._native.stats())

    def close(self, timeout: float | None = 1.0) -> None:
        """End the connection. Closing twice is allowed.

        Changes on their way end with `Cancelled`, applied or not. Their sources may change when
        `Update.settled` says so. Leases stay valid: their version stays pinned until the last array
        of it is deleted.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for the server to settle; None waits for ever.
        """
        limit = seconds("close", timeout)
        with self._closing():
            self._native.close(limit)

    def _facts(self) -> str:
        return f"of the box at {self.server.endpoint}"


def _at_free_ports(device: dict[str, Any]) -> dict[str, Any]:
    """Keep the ports that the environment gives to the server: nothing connects to a client."""
    given = dict(device)
    if device.get("listen") is None and device.get("port") is None:
        _, address = from_environment(find_option("listen"))
        host, colon, _ = address.rpartition(":")
        if colon:
            given["listen"] = f"{host}:0"
    if device.get("data_port") is None:
        given["data_port"] = 0
    return given


def _info(fields: Any) -> SegmentInfo:
    element, dims, name = fields["element"], fields["dims"], fields["name"]
    plain = plain_layout(element, dims)
    try:
        layout = parse_layout(element, dims, fields["description"], name)
    except ProtocolError:  # of this one alone, and attach() says so
        layout = plain
    of_bytes = element is _farwrite.BoxElement.BYTES and layout == plain
    return SegmentInfo(
        name=name,
        key=fields["key"],
        dtype="bytes" if of_bytes else type_name(layout.text),
        shape=layout.shape,
        nbytes=fields["nbytes"],
        epoch=fields["epoch"],
        version=fields["version"],
        buffers=fields["buffers"],
        temporary=fields["temporary"],
        attached=fields["attached"],
        silent=fields["silent"],
        age=fields["age"],
    )
