"""Completion: the future of one operation."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from farwrite import _farwrite, turns
from farwrite.awaited import Awaited
from farwrite.errors import Error
from farwrite.lifetime.handle import Handle


class Completion(Handle, elsewhere="wait for the operation here, and send the outcome"):
    """The future of a write, read, notification, message or flush. `Channel` creates it.

    Wait for it, poll it or await it. When a write succeeds, it is local_complete: the caller may
    reuse its source. When a read succeeds, its destination is filled. When a flush succeeds, every
    earlier write of its channel is visible to the peer. Until then it keeps its channel open.
    Dropping a `Completion` does not cancel its operation, which keeps its source or destination
    alive until it is settled.

    The constructor is internal: use the methods of `Channel`.
    """

    __slots__ = ("_native", "_works_through")

    def __init__(self, native: _farwrite.Completion, works_through: object) -> None:
        self._native = native
        self._works_through = works_through  # whose end would cancel the operation

    def done(self) -> bool:
        """Whether the operation has ended, with success or with an error."""
        return self._native.done()

    def settled(self) -> bool:
        """Whether no more bytes can move for this operation. Can be False after `cancel`."""
        return self._native.settled()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the operation ends. Ctrl-C interrupts the wait.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed. The operation continues; call `wait` again to wait further.
        Error
            If the operation failed.
        """
        self._native.wait(timeout)

    def cancel(self) -> None:
        """End every wait for the operation with `Cancelled`.

        A transfer in flight still completes. Farwrite keeps its arrays alive until then.
        """
        self._native.cancel()

    def __await__(self) -> Generator[Any, None, None]:
        if not self._native.done():
            awaited: Awaited[None] = Awaited()
            self._native.on_done(lambda code, message: awaited.end(None, code, message))
            yield from awaited.future
            return
        if turns.is_over():
            yield
        self._native.wait(0)

    def _facts(self) -> str:
        return outcome(self._native)


def outcome(native: _farwrite.Completion) -> str:
    """Describe for a ``repr`` whether the operation is under way, done or failed."""
    if not native.done():
        return "under way"
    try:
        native.wait(0)
    except Error as error:
        return f"failed: {error}"
    return "done"


SUCCEEDED = Completion(_farwrite.Completion(), None)
"""The completion of every operation that has succeeded when its call returns."""
