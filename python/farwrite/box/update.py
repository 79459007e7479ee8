"""Update: a change of a segment that is on its way."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from farwrite import _farwrite
from farwrite.completion import Completion, outcome
from farwrite.lifetime.handle import Handle

if TYPE_CHECKING:
    from farwrite.box.segment import Segment


class Update(Handle, elsewhere="wait for the change here, and send the version"):
    """A change on its way to the server. The methods of `Segment.post` create it.

    Wait for it, poll it or await it. It keeps its segment attached. Dropping it does not cancel the
    change, which keeps its source alive until it is `settled`.

    The constructor is internal: use `Segment.post`.
    """

    __slots__ = ("_completion", "_native")

    def __init__(self, native: _farwrite.BoxUpdate, segment: Segment) -> None:
        self._native = native
        self._completion = Completion(native.completion(), segment)

    def done(self) -> bool:
        """Whether the change was applied or has failed."""
        return self._completion.done()

    def settled(self) -> bool:
        """Whether the server reads the source no more, so that it may change.

        A change that is done is settled, unless the connection ended before the server answered.
        """
        return self._completion.settled()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the change is applied. Ctrl-C interrupts the wait.

        Parameters
        ----------
        timeout : float or None
            Seconds; None waits for ever.

        Returns
        -------
        int
            The segment's version after the change.

        Raises
        ------
        DeadlineExceeded
            If the timeout passed. The change goes on; call `wait` again to wait further.
        Error
            If the server refused the change, or died. A refused change has changed nothing.
        """
        self._completion.wait(timeout)
        return self._native.version()

    def __await__(self) -> Generator[Any, None, int]:
        yield from self._completion.__await__()
        return self._native.version()

    def _facts(self) -> str:
        return outcome(self._native.completion())
