"""SEASGD: training by elastic averaging over a segment of the box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite.arguments import seconds, whole_number
from farwrite.box.training.pending import Pending
from farwrite.box.training.shapes import Array, Flat, Shapes
from farwrite.box.training.weights import open_weights
from farwrite.closing import Closing
from farwrite.errors import FailedPrecondition, InvalidArgument

if TYPE_CHECKING:
    from farwrite.box import Client


class SEASGD(Closing):
    """Shared-memory elastic averaging SGD: each worker trains its own weights around shared ones.

    The worker computes its own update, by any optimizer, and then calls `step`. With the worker's
    weights Wx, the shared weights Wg and the moving rate a, a step is

        D = a * (Wx - Wg);  Wx = Wx - D;  Wg = Wg + D

    The box adds D to Wg. The worker's next computation overlaps with that addition: the thread of
    the client's device carries it, and the next step waits until it is applied. The read of Wg is
    not overlapped. Wg stays in the box after `close`.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the shared weights. The first worker creates it from its `arrays`.
    arrays : sequence of ndarray
        The worker's weights, as floats. Those of a later worker are set to the shared weights.
    moving_rate : float
        The a of the formula, above 0 and up to 1.
    period : int
        Exchange in each `period`-th step.
    timeout : float or None
        Seconds that each wait for the box may take; None waits for ever.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or the segment belongs to another model.
    DeadlineExceeded
        If the first worker did not write its weights in time.

    References
    ----------
    Soft Memory Box and ShmCaffe: SEASGD.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        arrays: Sequence[Array],
        moving_rate: float = 0.2,
        *,
        period: int = 1,
        timeout: float | None = 30.0,
    ) -> None:
        if not 0 < moving_rate <= 1:
            raise InvalidArgument(
                f"SEASGD: moving_rate {moving_rate} is out of range; give a number above 0 and up"
                " to 1"
            )
        self._rate = np.float32(moving_rate)
        self._period = whole_number("SEASGD", "period", period, 1, 2**31)
        self._timeout = seconds("SEASGD", timeout)
        self._shapes = Shapes("SEASGD", arrays)
        self._shapes.check("SEASGD", arrays, writable=True)
        self._steps = 0
        self._closed = False
        self._pending = Pending()
        size = self._shapes.size
        self._shared: Flat = client.array((size,), np.float32).array
        self._client = client
        self._segment = open_weights("SEASGD", client, name, self._shapes, arrays, self._timeout)

    def step(self, arrays: Sequence[Array]) -> None:
        """Exchange with the shared weights. Call it after the worker's own update.

        Parameters
        ----------
        arrays : sequence of ndarray
            The worker's weights, which are changed in place.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, shape or kind from those of the constructor.
        Error
            If the box did not apply the D of the step before, or cannot be reached. `arrays` are
            unchanged then.
        """
        self._check("SEASGD.step", arrays)
        self._steps += 1
        if self._steps % self._period:
            return
        self.flush()
        self._segment.read(self._shared, consistent="chunk", timeout=self._timeout)
        flat: Flat = self._client.array((self._shapes.size,), np.float32).array
        deltas = self._shapes.views(flat)
        for mine, shared, delta in zip(
            arrays, self._shapes.views(self._shared), deltas, strict=True
        ):
            np.subtract(mine, shared, out=delta, casting="same_kind")
            np.multiply(delta, self._rate, out=delta)
        self._pending.begin(self._segment.post.accumulate(flat))
        for mine, delta in zip(arrays, deltas, strict=True):
            np.subtract(mine, delta, out=mine, casting="same_kind")

    def read(self, arrays: Sequence[Array]) -> int:
        """Set `arrays` to one version of the shared weights, and return that version.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, shape or kind from those of the constructor.
        Error
            If the box cannot be reached.
        """
        self._check("SEASGD.read", arrays)
        self.flush()
        _, version = self._segment.read_with_version(self._shared, timeout=self._timeout)
        self._shapes.scatter(self._shared, arrays)
        return version

    def flush(self) -> None:
        """Wait until the box has applied the D of the last step.

        Raises
        ------
        Error
            If the box did not apply it. The error is raised once.
        """
        self._pending.finish(self._timeout)

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait up to `timeout` seconds for the last D, and detach. A second call does nothing.

        Raises
        ------
        Error
            If the box did not apply the last D. The object is closed nevertheless.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._pending.finish(timeout)
        finally:
            self._segment.detach()

    def _check(self, operation: str, arrays: Sequence[Array]) -> None:
        if self._closed:
            raise FailedPrecondition(f"{operation}: the object is closed; open another one")
        self._shapes.check(operation, arrays, writable=True)
