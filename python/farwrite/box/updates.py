"""New versions of a segment: waited for, iterated over, or delivered to a callback."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from farwrite import _farwrite
from farwrite.awaited import Awaited
from farwrite.errors import (
    Cancelled,
    Error,
    FailedPrecondition,
    NotFound,
    StatusCode,
    from_status,
)
from farwrite.lifetime.handle import Handle
from farwrite.lifetime.lock import Lock

if TYPE_CHECKING:
    from farwrite.box.segment import Segment

_ENDED = (NotFound, Cancelled, FailedPrecondition)
"""Freed, or closed on this side: the stream of versions ends."""
_LEFT = (Cancelled, FailedPrecondition)
"""Closed or detached on this side, whose program knows."""


async def wait_async(
    segment: Segment, version: int, epoch: int = 0, timeout: float | None = None
) -> tuple[int, int]:
    """Wait as `Segment.wait`, without blocking the event loop. Return epoch and version."""
    import asyncio

    native = segment.native
    native.check_wait()
    awaited: Awaited[tuple[int, int]] = Awaited()
    wait = native.on_version(
        version,
        epoch,
        lambda found, now, code, message: awaited.end((found, now), code, message),
    )
    try:
        return await asyncio.wait_for(awaited.future, timeout)
    except TimeoutError:
        raise from_status(
            StatusCode.DEADLINE_EXCEEDED,
            f"wait_async: {segment.place} has not reached version {version} in time; check that"
            " the server and the process that changes or publishes it run, or allow more time",
        ) from None
    finally:
        native.cancel(wait)


class Updates(Handle, elsewhere="attach the segment in the other process: client.attach(name)"):
    """The new versions of a segment as a stream. `Segment.updates` creates it.

    The constructor is internal.
    """

    def __init__(self, segment: Segment, version: int, epoch: int) -> None:
        self._segment = segment  # attached as long as this object
        self._native = segment.native
        self._version = version
        self._epoch = epoch  # 0: any

    def _facts(self) -> str:
        return f"of {self._segment!r} after version {self._version}"

    def __iter__(self) -> Iterator[int]:
        while True:
            self._native.check_wait()  # to end in its own client's callback would look like an end
            try:
                self._epoch, self._version = self._native.wait(self._version + 1, self._epoch, None)
            except _ENDED:
                return
            yield self._version

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> int:
        self._native.check_wait()
        try:
            self._epoch, self._version = await wait_async(
                self._segment, self._version + 1, self._epoch
            )
        except _ENDED:
            raise StopAsyncIteration from None
        return self._version


class Watch(Handle, elsewhere="attach the segment in the other process: client.attach(name)"):
    """Calls a function after new changes. `Segment.on_update` creates it.

    A context manager. The calls also end when the segment is freed or the connection ends: the last
    one gets the error in place of a version. They end without such a call when this side closes the
    client or detaches the segment, or when the program holds neither the client, nor a segment of
    it, nor this object any more.

    The constructor is internal.
    """

    def __init__(
        self,
        native: _farwrite.BoxSegment,
        version: int,
        callback: Callable[[int | Error], object],
        watches: set[Watch],
    ) -> None:
        self._native = native
        self._callback: Callable[[int | Error], object] | None = callback
        self._lock = Lock()
        self._arrived: deque[int | Error] = deque()
        self._delivering = False
        watches.add(self)
        self._watches = weakref.ref(watches)
        self._expect(version + 1)

    @property
    def closed(self) -> bool:
        """Whether no further call will be made."""
        return self._callback is None

    def close(self) -> None:
        """Make no further call. A call that runs in another thread may still be under way."""
        self._callback = None
        watches = self._watches()
        if watches is not None:
            watches.discard(self)

    def _expect(self, version: int) -> None:
        # The core keeps what it will call, and the callback often refers to the segment, which
        # keeps the client. Weak, this is no cycle that keeps a client which nothing closes.
        arrive = weakref.WeakMethod(self._arrive)

        def on_version(_: int, now: int, code: int, message: str) -> None:
            alive = arrive()
            if alive is not None:
                alive(now, code, message)

        # An attachment ends with its server, and while it lasts versions only grow.
        self._native.on_version(version, 0, on_version)

    def _arrive(self, version: int, code: int, message: str) -> None:
        # on_version() may call back before it returns: the loop below takes that one up, so that
        # calls neither nest nor overlap.
        with self._lock():
            self._arrived.append(version if code == 0 else from_status(code, message))
            if self._delivering:
                return
            self._delivering = True
        self._deliver()

    def _deliver(self) -> None:
        failed: BaseException | None = None
        while True:
            with self._lock():
                if not self._arrived:
                    self._delivering = False
                    break
                arrived = self._arrived.popleft()
            callback = self._callback
            if isinstance(arrived, Error):
                self.close()
            if callback is None or isinstance(arrived, _LEFT):
                continue
            try:
                callback(arrived)
            except BaseException as error:
                failed = error  # the calls go on; the binding reports it
            if not isinstance(arrived, Error):
                self._expect(arrived + 1)
        if failed is not None:
            raise failed

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _facts(self) -> str:
        return f"of '{self._native.info()['name']}'"

    def _state(self) -> str:
        return "closed" if self.closed else ""
