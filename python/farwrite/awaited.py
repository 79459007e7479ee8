"""What another thread brings about, as a future of asyncio's loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from farwrite.errors import from_status

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")


class Awaited(Generic[Result]):
    """A future of the running loop, which any thread may settle once.

    An outcome of a cancelled task, of one that a signal handler's exception ended, or of a loop
    that has been closed, is dropped.
    """

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Result] = self._loop.create_future()

    def succeed(self, result: Result) -> None:
        """End it with a result."""
        self._settle(lambda: self.future.set_result(result))

    def fail(self, error: BaseException) -> None:
        """End it with an error."""
        self._settle(lambda: self._raise(error))

    def end(self, result: Result, code: int, message: str) -> None:
        """End it with a result, or with the error of a status of the core."""
        if code == 0:
            self.succeed(result)
        else:
            # Made in the loop's thread, which the end of the interpreter may hold there.
            self._settle(lambda: self._raise(from_status(code, message)))

    def _raise(self, error: BaseException) -> None:
        self.future.set_exception(error)
        self.future.exception()  # or asyncio logs it where no task waits any more

    def _settle(self, settle: Callable[[], None]) -> None:
        def in_loop() -> None:
            if not self.future.done():
                settle()

        with contextlib.suppress(RuntimeError):  # of a closed loop
            self._loop.call_soon_threadsafe(in_loop)
