"""New versions of a segment: waited for, iterated over, or delivered to a callback."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, cast

from farwrite import _farwrite
from farwrite.awaited import Awaited
from farwrite.box.beside import begin, in_loop
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
    import asyncio
    from concurrent.futures import Future

    from farwrite.box.segment import Segment

_ENDED = (NotFound, Cancelled, FailedPrecondition)
"""Freed, or closed on this side: the stream of versions ends."""
_LEFT = (Cancelled, FailedPrecondition)
"""Closed or detached on this side, whose program knows."""

_ANSWER_S = 1.0
"""What a wait with a shorter timeout allows for an answer, as the core does."""


async def wait_async(
    segment: Segment, version: int, epoch: int = 0, timeout: float | None = None
) -> tuple[int, int]:
    """Wait as `Segment.wait`, without blocking the event loop. Return epoch and version."""
    import asyncio

    native = segment.native
    native.check_wait()
    start = time.monotonic()
    reached, wait = _ask(native, version, epoch)
    try:
        if timeout is None:
            return await reached
        if timeout > _ANSWER_S:
            await asyncio.wait({reached}, timeout=timeout - _ANSWER_S)
        if not reached.done():
            await _last_second(segment, reached, version, epoch, start, timeout)
        return reached.result()
    finally:
        native.cancel(wait)


async def _last_second(
    segment: Segment,
    reached: asyncio.Future[tuple[int, int]],
    version: int,
    epoch: int,
    start: float,
    timeout: float,
) -> None:
    """Wait for `reached` until the timeout. Raise `DeadlineExceeded` if it is not done by then.

    The server is asked for the version that it has: its answer tells a server without the version
    from a silent one, and needs its time even when the timeout is 0.
    """
    native = segment.native
    asked, ask = _ask(native, 0, 0)
    try:
        end = start + max(timeout, _ANSWER_S)
        await _first_of({reached, asked}, end)
        if asked.done() and not reached.done():
            now = asked.result()  # or the error of both
            if now[1] >= version or (epoch != 0 and now[0] != epoch):
                await _first_of({reached}, end)  # its answer is on its way
            await _first_of({reached}, start + timeout)
    finally:
        native.cancel(ask)
    if reached.done():
        return
    if not asked.done():
        says = (
            f"the box of {segment.place} has not answered in time; check that the server runs and"
            " is not stopped, or allow more time"
        )
    else:
        none = ", so nothing was written or published there," if now[1] == 0 else ""
        says = (
            f"{segment.place} has version {now[1]}{none} and has not reached version {version} in"
            " time; check that the server and the process that changes or publishes it run, or"
            " allow more time"
        )
    raise from_status(StatusCode.DEADLINE_EXCEEDED, f"wait_async: {says}")


def _ask(
    native: _farwrite.BoxSegment, version: int, epoch: int
) -> tuple[asyncio.Future[tuple[int, int]], int]:
    """Ask for a version; return its epoch and number, awaited, and what `cancel` takes."""
    awaited: Awaited[tuple[int, int]] = Awaited()
    wait = native.on_version(
        version,
        epoch,
        lambda found, now, code, message: awaited.end((found, now), code, message),
    )
    return awaited.future, wait


async def _first_of(futures: set[asyncio.Future[tuple[int, int]]], end: float) -> None:
    import asyncio

    left = max(end - time.monotonic(), 0)
    await asyncio.wait(futures, timeout=left, return_when=asyncio.FIRST_COMPLETED)


def present(native: _farwrite.BoxSegment, operation: str) -> int | Future[int]:
    """Return the version; in an event loop, as a future if the server does not answer at once."""
    if not in_loop():
        return native.version()
    native.check_wait()  # here, because a thread that is begun is no callback
    future = begin(operation, native.version)
    return future.result() if future.done() else future


async def _in_loop(future: Future[int]) -> int:
    """Await what a thread finds. A wait that was given up may be made again."""
    awaited: Awaited[int] = Awaited()

    def arrive(done: Future[int]) -> None:
        error = done.exception()
        if error is None:
            awaited.succeed(done.result())
        else:
            awaited.fail(error)

    future.add_done_callback(arrive)
    return await awaited.future


class Updates(Handle, elsewhere="attach the segment in the other process: client.attach(name)"):
    """The new versions of a segment as a stream. `Segment.updates` creates it.

    The constructor is internal.
    """

    def __init__(self, segment: Segment, version: int | Future[int], epoch: int) -> None:
        self._segment = segment  # attached as long as this object
        self._native = segment.native
        self._version = version  # a future, if the server did not answer at once
        self._epoch = epoch  # 0: any

    def _facts(self) -> str:
        known = isinstance(self._version, int)
        return f"of {self._segment!r}" + (f" after version {self._version}" if known else "")

    def __iter__(self) -> Iterator[int]:
        while True:
            self._native.check_wait()  # to end in its own client's callback would look like an end
            try:
                if not isinstance(self._version, int):
                    self._version = self._version.result()
                self._epoch, self._version = self._native.wait(self._version + 1, self._epoch, None)
            except _ENDED:
                return
            yield self._version

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> int:
        self._native.check_wait()
        try:
            if not isinstance(self._version, int):
                self._version = await _in_loop(self._version)
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
        version: int | Future[int],
        callback: Callable[[int | Error], object],
        watches: set[Watch],
    ) -> None:
        self._native = native
        self._callback: Callable[[int | Error], object] | None = callback
        self._lock = Lock()
        self._arrived: deque[int | Error] = deque()
        watches.add(self)
        self._watches = weakref.ref(watches)
        if isinstance(version, int):
            self._expect(version + 1)
        else:
            begins = weakref.WeakMethod(self._begin)

            def on_answer(answer: Future[int]) -> None:
                alive = begins()
                if alive is not None:
                    alive(answer)

            version.add_done_callback(on_answer)

    def _begin(self, version: Future[int]) -> None:
        error = version.exception()
        if error is None:
            if not self.closed:
                self._expect(version.result() + 1)
        else:
            if not isinstance(error, Error):
                error = from_status(StatusCode.INTERNAL, str(error))
            try:
                self._take(error)
            except Exception as failed:  # as the binding reports it of a callback
                sys.unraisablehook(
                    cast(
                        "sys.UnraisableHookArgs",
                        SimpleNamespace(
                            exc_type=type(failed),
                            exc_value=failed,
                            exc_traceback=failed.__traceback__,
                            err_msg=None,
                            object=self._callback,
                        ),
                    )
                )

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
        self._take(version if code == 0 else from_status(code, message))

    def _take(self, arrived: int | Error) -> None:
        # on_version() may call back before it returns: the loop below takes that one up, so that
        # calls neither nest nor overlap. The lock is only tried: a signal handler that detaches the
        # segment comes here in the thread that has it.
        self._arrived.append(arrived)
        failed: BaseException | None = None
        delivering = self._lock()
        while self._arrived and delivering.acquire(blocking=False):
            try:
                failed = self._deliver() or failed
            finally:
                delivering.release()
        if failed is not None:
            raise failed

    def _deliver(self) -> BaseException | None:
        failed: BaseException | None = None
        while self._arrived:
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
        return failed

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
