"""SEASGD: training by elastic averaging over a segment of the box."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farwrite import _farwrite
from farwrite.arguments import seconds, whole_number
from farwrite.box.training.claims import Workers, checked_client
from farwrite.box.training.pending import Pending
from farwrite.box.training.shapes import (
    Arrays,
    Flat,
    Nonfinite,
    Shapes,
    checked_choice,
    finite,
    values_of,
)
from farwrite.box.training.weights import open_weights, take_weights
from farwrite.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite.box import Client
    from farwrite.box.segment import Consistency


class SEASGD(Closing):
    """Shared-memory elastic averaging SGD: each worker trains its own weights around shared ones.

    The worker computes its own update, by any optimizer, and then calls `step`. With the worker's
    weights Wx, the shared weights Wg and the moving rate a, a step is

        D = a * (Wx - Wg);  Wx = Wx - D;  Wg = Wg + D

    The box adds D to Wg. The worker's next computation overlaps with that addition: the thread of
    the client's device carries it, and the next step waits until it is applied. The read of Wg is
    not overlapped.

    A worker lives until `close`, or until the program drops the object: keep it.

    A worker joins while another one lives. Wg stays in the box after the last one; workers that
    start then go on from it with ``takeover=True``, and are refused without. The docs have a table
    of what a restart finds (docs/explanation/parameter-box.md).

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the shared weights. The first worker creates it from its `arrays`. The event
        `name`.workers exists as long as a worker lives.
    arrays : sequence or dict of ndarray
        The worker's weights, of float64, float32, float16 or bfloat16. Those of a later worker are
        set to the shared weights. The segment is float64 if there is a float64 array, and float32
        otherwise, so it holds every weight exactly.
    moving_rate : float
        The a of the formula, above 0 and up to 1.
    period : int
        Exchange in each `period`-th step.
    timeout : float or None
        Seconds that each wait for the box may take; None waits for ever.
    takeover : bool
        Go on with the shared weights of workers that have all ended.
    types : sequence of str, optional
        The element types of the model's tensors, if `arrays` are converted copies of them:
        "bfloat16" of PyTorch's tensors in float32 arrays.
    nonfinite : {"refuse", "skip"}
        What an exchange does if the worker's weights have NaN or infinity, which the shared weights
        would keep for good. "refuse" raises InvalidArgument. "skip" sets the worker's weights to
        the shared ones, and logs a warning: the worker goes on without its last steps.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or the segment belongs to another model; the message names the
        tensor whose name, shape or dtype differs.
    AlreadyExists
        If the box has the weights of workers that have all ended, and `takeover` is False.
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
        arrays: Arrays,
        moving_rate: float = 0.2,
        *,
        period: int = 1,
        timeout: float | None = 30.0,
        takeover: bool = False,
        types: Sequence[str] | None = None,
        nonfinite: Nonfinite = "refuse",
    ) -> None:
        checked_client("SEASGD", client)
        self._nonfinite = checked_choice("SEASGD", nonfinite)
        self._period = whole_number("SEASGD", "period", period, 1, 2**31)
        self._timeout = seconds("SEASGD", timeout)
        self._shapes = Shapes("SEASGD", arrays, types)
        self._shapes.check("SEASGD", arrays, writable=True)
        rate = self._shapes.factor("SEASGD", "moving_rate", moving_rate, 1)
        self._rate = self._shapes.dtype.type(rate)
        self._steps = 0
        self._pending = Pending()
        self._client = client
        self._shared = self._memory()
        with contextlib.ExitStack() as attached:
            workers = Workers("SEASGD", client, name, takeover, self._timeout)
            attached.callback(workers.leave)
            self._segment, empty = open_weights("SEASGD", client, name, self._shapes, workers)
            attached.callback(self._segment.detach)
            take_weights(self._segment, empty, self._shapes, arrays, self._timeout)
            workers.begin()
            self._attached = attached.pop_all()

    @property
    def due(self) -> bool:
        """Whether the next `step` exchanges. The others do not use their arrays."""
        return (self._steps + 1) % self._period == 0

    def step(self, arrays: Arrays | None = None) -> None:
        """Exchange with the shared weights if it is `due`. Call it after the worker's own update.

        Parameters
        ----------
        arrays : sequence or dict of ndarray, optional
            The worker's weights, which an exchange changes in place. May be left out of a step that
            is not due.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, name, shape or dtype from those of the constructor; or
            they have NaN or infinity and `nonfinite` is "refuse".
        FailedPrecondition
            If the object is closed, or the shared weights have NaN or infinity.
        Error
            If the box did not apply the D of the step before, or cannot be reached. `arrays` are
            unchanged then, and the step is not counted: the next one makes the exchange.
        """
        due = self.due
        self._check_open("SEASGD.step")
        if arrays is not None or due:
            self._check("SEASGD.step", () if arrays is None else arrays)
        if due and arrays is not None:
            self._exchange(arrays)
        self._steps += 1

    def _exchange(self, arrays: Arrays) -> None:
        self.flush()
        self._read("chunk")
        mine = values_of(arrays)
        # Not the memory of the exchange before: one that an exception has ended may be on its way.
        flat = self._memory()
        deltas = self._shapes.views(flat)
        for own, shared, delta in zip(mine, self._shapes.views(self._shared), deltas, strict=True):
            np.subtract(own, shared, out=delta, casting="same_kind")
            np.multiply(delta, self._rate, out=delta)
        if not finite((flat,)):
            return self._skip(arrays)
        self._pending.begin(self._segment.post.accumulate(flat))
        for own, delta in zip(mine, deltas, strict=True):
            np.subtract(own, delta, out=own, casting="same_kind")

    def _skip(self, arrays: Arrays) -> None:
        if finite(values_of(arrays)):
            raise FailedPrecondition(
                f"SEASGD.step: the shared weights of '{self._segment.name}' have NaN or infinity,"
                " or are too far from the worker's; restore a snapshot of the box, or train under"
                " another name"
            )
        if self._nonfinite == "refuse":
            raise InvalidArgument(
                "SEASGD.step: the worker's weights have NaN or infinity, which the shared ones"
                " would keep; end the training or lower its learning rate, or give nonfinite='skip'"
                " to go on from the shared weights"
            )
        _farwrite.log_warning(
            f"SEASGD: weights of a worker of '{self._segment.name}' had NaN or infinity; they were"
            " set to the shared ones"
        )
        self._shapes.scatter(self._shared, arrays)

    def read(self, arrays: Arrays) -> int:
        """Set `arrays` to one version of the shared weights, and return that version.

        Raises
        ------
        InvalidArgument
            If `arrays` differ in number, name, shape or dtype from those of the constructor.
        Error
            If the box cannot be reached.
        """
        self._check("SEASGD.read", arrays)
        self.flush()
        version = self._read("segment")
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

    def _facts(self) -> str:
        return f"of '{self._segment.name}'"

    def close(self, timeout: float | None = 30.0) -> None:
        """Wait up to `timeout` seconds for the last D, and detach. A second call does nothing.

        Raises
        ------
        Error
            If the box did not apply the last D. The object is closed nevertheless.
        """
        limit = seconds("close", timeout)
        if self._closed:
            return
        self._closed = True
        try:
            self._pending.finish(limit)
        finally:
            self._attached.close()

    def _read(self, consistent: Consistency) -> int:
        try:
            return self._segment.read_with_version(
                self._shared, consistent=consistent, timeout=self._timeout
            )[1]
        except DeadlineExceeded:
            self._shared = self._memory()  # bytes may still arrive in the other
            raise

    def _memory(self) -> Flat:
        memory: Flat = self._client.array((self._shapes.size,), self._shapes.dtype).array
        return memory

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise FailedPrecondition(f"{operation}: the object is closed; open another one")

    def _check(self, operation: str, arrays: Arrays) -> None:
        self._check_open(operation)
        self._shapes.check(operation, arrays, writable=True)
