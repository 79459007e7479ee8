"""Segment: named memory of a box, as a client sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, get_args

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.arguments import choice, function, seconds, whole_number
from farwrite.box.beside import in_thread
from farwrite.box.cached import Cached
from farwrite.box.changes import Changes, Posted, offset_of, range_of
from farwrite.box.element import Elements, Layout, destination_of, parse_layout
from farwrite.box.lease import Lease
from farwrite.box.update import Update
from farwrite.box.updates import Updates, Watch, present, wait_async
from farwrite.errors import DeadlineExceeded, Error, InvalidArgument

if TYPE_CHECKING:
    from farwrite.box.client import Client

Consistency = Literal["segment", "chunk"]
_CONSISTENCIES = get_args(Consistency)
_MOST = 2**64 - 1


@dataclass(frozen=True)
class SegmentInfo:
    """A segment, as `Client.list` describes it."""

    name: str
    key: int
    """Identifies the segment for ever, also in another process."""
    dtype: str
    """Element type of the segment; "bytes" for plain bytes and for models."""
    shape: tuple[int, ...]
    nbytes: int
    """Bytes of one buffer."""
    epoch: int
    """The epoch of the version; see `Segment.epoch`."""
    version: int
    """Number of changes applied so far."""
    buffers: int
    """The most buffers that the server takes for it."""
    temporary: bool
    """Whether the segment is freed when the last client that attached it has left."""
    attached: int
    """Number of clients that have it attached."""
    silent: int
    """Of those, the clients of which nothing came for the `detection_time` of the server: stopped,
    or cut off."""
    age: float
    """Seconds since the last change, or since it was created."""


class Segment(Changes[int]):
    """Named memory of a box. `Client.create` and `Client.attach` create it.

    Any thread may call any method at any time. Each change waits until the server has applied it
    and returns the new version: see `Changes`. `post` has the same methods without the wait. Calls
    without a timeout of their own raise `DeadlineExceeded` after the one given to `connect`.

    The attachment ends with `detach`, or with this object. Calls after `free` of any client raise
    `NotFound`.

    The constructor is internal: use the methods of `Client`.
    """

    def __init__(self, native: _farwrite.BoxSegment, client: Client) -> None:
        self._native = native
        self._client = client  # open as long as this object, and so is what the client keeps
        info: Any = native.info()
        self._name: str = info["name"]
        self._key: int = info["key"]
        self._description: bytes = info["description"]
        self._layout = parse_layout(info["element"], info["dims"], self._description, self._name)
        self._ended = ""  # as far as this object has ended it

    # --- What it is.

    @property
    def name(self) -> str:
        """The name of the segment."""
        return self._name

    @property
    def key(self) -> int:
        """A number that identifies the segment for ever; any process can attach by it."""
        return self._key

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._layout.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type.

        Raises
        ------
        Unsupported
            If the type is bfloat16, and the package ml_dtypes is not installed.
        """
        return self._layout.dtype

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._layout.size

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._layout.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._layout.nbytes

    @property
    def description(self) -> bytes:
        """What the creator gave the segment, for example the schema of a model: UTF-8 as bytes."""
        return self._description

    @property
    def version(self) -> int:
        """Number of changes that the server has applied. It names the contents only in an epoch."""
        return self._native.version()

    @property
    def epoch(self) -> int:
        """What tells versions of one number apart: a number of 64 bits, never 0.

        The server gives the segment a new one when it creates the segment, when it restores it from
        a snapshot, with the first version of a publisher that takes over, and with a `write` that
        asks for one by ``new_epoch=True``. Two contents are the same only if epoch and version are.
        Compare epochs for equality: a box that starts without a snapshot may give a lower one.
        """
        return self._native.version_id()[0]

    @property
    def chunk_versions(self) -> list[int]:
        """Number of changes that each chunk of 1 MiB has seen."""
        return self._native.chunk_versions()

    @property
    def layout(self) -> Layout:
        """Shape and element type. Internal."""
        return self._layout

    @property
    def place(self) -> str:
        """The segment and its box, for errors. Internal."""
        return f"'{self._name}' at {self._client.server.endpoint}"

    @property
    def native(self) -> _farwrite.BoxSegment:
        """The core's handle. Internal."""
        return self._native

    # --- Reading.

    def read(
        self,
        out: Any = None,
        *,
        start: SupportsIndex | None = None,
        count: SupportsIndex | None = None,
        consistent: Consistency = "segment",
        min_version: SupportsIndex = 0,
        epoch: SupportsIndex | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Read elements into local memory. Ctrl-C interrupts the wait.

        Parameters
        ----------
        out : array, optional
            The destination: of this dtype, writable, C-contiguous, on the CPU or a GPU. Without
            `start`, of this shape. By default a new array.
        start, count : int, optional
            Index of the first element in C order, and how many. Without `out`, the new array then
            has one dimension.
        consistent : {"segment", "chunk"}
            What others' changes may do meanwhile. "segment" reads one version of all elements.
            "chunk" reads one version of each chunk of 1 MiB. Frequent changes cannot starve it.
        min_version : int
            Wait until the segment has at least this version.
        epoch : int, optional
            The epoch that the caller has. If the segment has another one, do not wait.
        timeout : float or None
            Seconds. A read of bytes gets at least a second, and one more for each 100 MB. None
            waits for `min_version` for ever, and for anything else of the server as long as the
            timeout given to `connect`, and for bytes another second for each 100 MB.

        Returns
        -------
        out, or the new array

        Raises
        ------
        DeadlineExceeded
            If the timeout passed. Bytes may still arrive in `out`: read into another array next.
        InvalidArgument, OutOfRange
            If `out` or the range do not fit.
        NotFound
            If the segment was freed.
        ResourceExhausted
            If the elements change all the time, and leases took every buffer for as long as the
            timeout given to `connect`.
        """
        return self.read_with_version(
            out, start=start, count=count, consistent=consistent, min_version=min_version,
            epoch=epoch, timeout=timeout,
        )[0]  # fmt: skip

    def read_with_version(
        self,
        out: Any = None,
        *,
        start: SupportsIndex | None = None,
        count: SupportsIndex | None = None,
        consistent: Consistency = "segment",
        min_version: SupportsIndex = 0,
        epoch: SupportsIndex | None = None,
        timeout: float | None = None,
    ) -> tuple[Any, int]:
        """Read as `read` does. Return the array, and the version of the elements in it.

        With ``consistent="chunk"`` it is the lowest version that a chunk can have.
        """
        choice("read", "consistent", consistent, _CONSISTENCIES)
        limit = seconds("read", timeout)
        least = whole_number("read", "min_version", min_version, 0, _MOST)
        if out is None:
            offset, length = self.range_of("read", 0 if start is None else start, count)
            whole = start is None and count is None
            shape = self._layout.shape if whole else (length // self._layout.itemsize,)
            out = np.empty(shape, self._layout.dtype)
            elements = destination_of("read", out)
            data = elements.data
        else:
            if count is not None:
                raise InvalidArgument("read: out and count both say how many; give one of them")
            elements = destination_of("read", out)
            offset, data = self.offset_of("read", elements, start), elements.data
        _, version, _, _ = self._native.read(
            data, offset, consistent == "chunk", least, _epoch("read", epoch), limit
        )
        elements.finish()
        return out, version

    def lease(self, timeout: float | None = None) -> Lease:
        """Pin the newest version. On one host nothing is copied; between hosts it is read once.

        The pinned elements do not change. Others' changes go to another buffer meanwhile. With
        `buffers` of `Client.create`, ``buffers - 1`` different versions can be pinned at a time.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait for the server; None waits for ever.

        Returns
        -------
        Lease
            A context manager. The end of the ``with`` block ends the lease.

        Raises
        ------
        ResourceExhausted
            If as many other versions are pinned, or the server has no memory for another buffer.

        Examples
        --------
        >>> with segment.lease() as lease:  # doctest: +SKIP
        ...     print(lease.version, lease.array.mean())
        """
        data, epoch, version = self._native.lease(seconds("lease", timeout))
        return Lease(data, epoch, version, self._layout)

    def view(self) -> npt.NDArray[Any]:
        """Return a read-only view of the server's memory, without a copy.

        The view is live: it may change while a program reads it, also in the middle of a change.
        After a write of the whole segment it may show the buffer of an earlier version. Use
        `lease` for contents that stay.

        Raises
        ------
        Unsupported
            If the fabric cannot map the server's memory.
        """
        data, _, _ = self._native.view()
        return self._layout.over(data)

    def cached(self, *, consistent: Consistency = "segment") -> Cached:
        """Read a local copy that can tell whether it is stale."""
        return Cached(self, consistent)

    # --- News.

    def wait(
        self,
        version: SupportsIndex,
        timeout: float | None = None,
        *,
        epoch: SupportsIndex | None = None,
    ) -> int:
        """Wait until the segment has at least `version`. Ctrl-C interrupts the wait.

        Parameters
        ----------
        version : int
            ``segment.version + 1`` waits for the next change.
        timeout : float or None
            Seconds; None waits for ever.
        epoch : int, optional
            The epoch that the caller has. If the segment has or gets another one, the wait ends.

        Returns
        -------
        int
            The present version.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed.
        NotFound
            If the segment was freed.
        """
        return self._native.wait(
            _version("wait", version), _epoch("wait", epoch), seconds("wait", timeout)
        )[1]

    async def wait_async(
        self,
        version: SupportsIndex,
        timeout: float | None = None,
        *,
        epoch: SupportsIndex | None = None,
    ) -> int:
        """Wait as `wait` does, without blocking the event loop."""
        _, reached = await wait_async(
            self,
            _version("wait_async", version),
            _epoch("wait_async", epoch),
            seconds("wait_async", timeout),
        )
        return reached

    async def read_async(
        self,
        out: Any = None,
        *,
        start: SupportsIndex | None = None,
        count: SupportsIndex | None = None,
        consistent: Consistency = "segment",
        min_version: SupportsIndex = 0,
        epoch: SupportsIndex | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Read as `read` does, in a thread of its own, without blocking the event loop.

        The thread of a cancelled task reads on. Do not use its `out` again: give a new one.
        """
        self.native.check_wait()
        return await in_thread(
            "read_async",
            lambda: self.read(
                out, start=start, count=count, consistent=consistent, min_version=min_version,
                epoch=epoch, timeout=timeout,
            ),
        )  # fmt: skip

    def updates(
        self, since: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None
    ) -> Updates:
        """Iterate over new versions, with ``for`` or ``async for``.

        Each item is the present version. Versions that came in between are not repeated. The
        iteration ends when the segment is freed, or the client or this attachment closes.

        Parameters
        ----------
        since : int, optional
            The version that the caller has. By default the present one, for which this call asks
            the server. In an event loop the iteration waits for a late answer, and not the call.
        epoch : int, optional
            The epoch of `since`: if the segment has another one, its version is the first item.
        """
        known = _epoch("updates", epoch)
        if since is not None:
            return Updates(self, _version("updates", since), known)
        return Updates(self, present(self._native, "updates"), known)

    def on_update(self, callback: Callable[[int | Error], object]) -> Watch:
        """Call ``callback(version)`` after new changes, until the `Watch` is closed.

        If the box dies, the connection ends or the segment is freed, the last call is
        ``callback(error)`` with that `Error`. ``client.close()`` ends it without a call.
        Farwrite calls it in its own threads, one call at a time. `callback` must not block. Calls
        on the same client or its segments that would wait for the server raise `FailedPrecondition`
        in it, because the answers come in the same thread: use `post`, or hand them to another one.
        Callbacks of two clients that wait for answers to each other's do so until a timeout.
        Versions that came in between are not repeated. Exceptions from `callback` go to
        ``sys.unraisablehook``. The `Watch` need not be kept: the client and its segments keep it.

        The call waits for the present version. In an event loop it does not wait for a late answer:
        the calls then begin with it, and `callback` gets the error if none comes.
        """
        function("on_update", "callback", callback, "a version")
        now = present(self._native, "on_update")
        return Watch(self._native, now, callback, self._client.watches)

    # --- Changes, and the end.

    @property
    def post(self) -> Posted:
        """The changes without the wait: ``segment.post.accumulate(delta)`` gives an `Update`."""
        return Posted(self)

    def detach(self) -> None:
        """End this attachment. Leases stay valid. Detaching twice is allowed."""
        self._native.detach()
        self._ended = self._ended or "detached"

    def free(self) -> None:
        """Free the segment for every client. Their later calls raise `NotFound`.

        Raises
        ------
        NotFound
            If the segment was freed before.
        """
        self._native.free()
        self._ended = "freed"

    def offset_of(self, operation: str, elements: Elements, start: SupportsIndex | None) -> int:
        """Check that an array fits at element `start`; return the offset in bytes. Internal."""
        return offset_of(operation, self._name, self._layout, elements, start)

    def range_of(
        self, operation: str, start: SupportsIndex, count: SupportsIndex | None
    ) -> tuple[int, int]:
        """Check a range of elements; return its offset and length in bytes. Internal."""
        return range_of(operation, self._name, self._layout, start, count)

    def _segment(self) -> Segment:
        return self

    def _wait(self) -> float | None:
        return self._client.timeout

    def _outcome(self, update: Update) -> int:
        try:
            return update.wait(0)
        except DeadlineExceeded:
            raise DeadlineExceeded(
                f"change {self.place}: the box has not answered within {self._client.timeout} s,"
                " and may still apply the change; check that the server runs, give connect() a"
                " longer timeout, or post the change and wait for its Update"
            ) from None

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            f"NumPy cannot view segment '{self._name}', which is the box's: read it, x.read(), or"
            " pin a version, x.lease()"
        )

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a segment without dimensions")
        return self.shape[0]

    def _facts(self) -> str:
        return f"'{self._name}' {self._layout.name} {self.shape}"

    def _state(self) -> str:
        return self._ended


def _version(operation: str, version: SupportsIndex) -> int:
    return whole_number(operation, "version", version, 0, _MOST)


def _epoch(operation: str, epoch: SupportsIndex | None) -> int:
    return 0 if epoch is None else whole_number(operation, "epoch", epoch, 1, _MOST)
