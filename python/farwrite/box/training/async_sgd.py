"""AsyncSGD: workers that add their gradients to shared weights, with bounded staleness."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from farwrite import _farwrite
from farwrite.arguments import seconds, whole_number
from farwrite.box.training.claims import Workers, checked_client
from farwrite.box.training.counters import Counters, Counts
from farwrite.box.training.pending import Pending
from farwrite.box.training.shapes import (
    Arrays,
    Flat,
    Nonfinite,
    Shapes,
    checked_choice,
    finite,
)
from farwrite.box.training.weights import open_weights, take_weights
from farwrite.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite.box import Client, Segment

# Added to the count of a worker that has left, so that nothing waits for it.
LEFT = 2**62


class AsyncSGD(Closing):
    """Asynchronous SGD on shared weights, with a bound on how far a worker runs ahead.

    A step adds -learning_rate * gradients to the shared weights at the box. The step then waits
    until the slowest worker is at most `staleness` steps behind, and reads the weights. A worker
    that has closed its object counts no longer; the others wait for a worker that died, until
    their timeout. Started again, it goes on with its count.

    The weights and the counts stay in the box after the last worker. Workers that start then go on
    from them with ``takeover=True``, and are refused without. A worker that closed its object has
    finished, and its number is refused. To train on from the weights of such workers, free the
    segment `name`/steps before the first one starts; the counts then start at 0.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the weights; `name`/steps is that of the counts. The first worker creates
        both. The event `name`.workers exists as long as a worker lives, and the segment
        `name`/steps.NUMBER as long as that one does. To replace a worker that hangs, free the
        latter first.
    arrays : sequence or dict of ndarray
        The worker's weights, as in `SEASGD`. Those of a later worker are set to the shared weights.
    learning_rate : float
        The factor of the gradients, above 0.
    staleness : int
        How many steps a worker may be ahead of the slowest one; 0: the workers go in step.
    worker : int
        This worker's number, from 0 to `workers` - 1.
    workers : int
        How many workers take part; every worker gives the same number.
    timeout : float or None
        Seconds that each wait for the box or for slower workers may take; None waits for ever.
    takeover : bool
        Go on with the weights and the counts of workers that have all ended.
    nonfinite : {"refuse", "skip"}
        What a step does if its gradients have NaN or infinity, which the shared weights would keep
        for good. "refuse" raises InvalidArgument, and the step is not counted. "skip" counts the
        step without its gradients, and logs a warning.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or a segment belongs to another model or number of workers. The
        message names the tensor whose name, shape or dtype differs.
    AlreadyExists
        If a living process is this worker, or the box has the weights of workers that have all
        ended and `takeover` is False.
    FailedPrecondition
        If this worker's number has finished already.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        arrays: Arrays,
        learning_rate: float,
        staleness: int = 1,
        *,
        worker: int = 0,
        workers: int = 1,
        timeout: float | None = 30.0,
        takeover: bool = False,
        nonfinite: Nonfinite = "refuse",
    ) -> None:
        checked_client("AsyncSGD", client)
        self._nonfinite = checked_choice("AsyncSGD", nonfinite)
        self._staleness = whole_number("AsyncSGD", "staleness", staleness, 0, 2**31)
        self._timeout = seconds("AsyncSGD", timeout)
        self._shapes = Shapes("AsyncSGD", arrays)
        self._shapes.check("AsyncSGD", arrays, writable=True)
        self._rate = self._shapes.factor("AsyncSGD", "learning_rate", learning_rate)
        self._client = client
        self._pending = Pending()
        with contextlib.ExitStack() as attached:
            living = Workers("AsyncSGD", client, name, takeover, self._timeout)
            attached.callback(living.leave)
            self._segment, empty = self._open(name, living)
            attached.callback(self._segment.detach)
            self._counters = Counters("AsyncSGD", client, f"{name}/steps", workers, living, empty)
            attached.callback(self._counters.detach)
            self._worker = self._counters.worker(worker)
            self._steps = int(self._counters.read(self._timeout)[self._worker])
            if self._steps >= LEFT:
                raise FailedPrecondition(
                    f"AsyncSGD: worker {worker} of '{name}' has finished; to train on from the"
                    f" weights, close all workers, free the counts"
                    f" (client.attach({name + '/steps'!r}).free()), and start all workers with"
                    " takeover=True; or choose another name for another training"
                )
            take_weights(self._segment, empty, self._shapes, arrays, self._timeout)
            living.begin()
            self._attached = attached.pop_all()

    def _open(self, name: str, living: Workers) -> tuple[Segment, bool]:
        try:
            return open_weights("AsyncSGD", self._client, name, self._shapes, living)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"{error}; a worker that closed its object has finished, so to go on after such"
                f" workers free '{name}/steps' first, and the counts start at 0"
            ) from None

    @property
    def steps(self) -> int:
        """The steps of this worker, also those before it was started again."""
        return self._steps

    def step(self, gradients: Arrays, arrays: Arrays) -> None:
        """Add the gradients to the shared weights, wait for slow workers, and read the weights.

        Parameters
        ----------
        gradients : sequence or dict of ndarray
            In the names, shapes, dtypes and order of the weights.
        arrays : sequence or dict of ndarray
            Set to the shared weights.

        Raises
        ------
        InvalidArgument
            If the arrays differ in number, name, shape or dtype from those of the constructor; or
            `gradients` have NaN or infinity and `nonfinite` is "refuse".
        FailedPrecondition
            If the object is closed, or the segment `name`/steps.NUMBER was freed, so that another
            process may be this worker. The step is not counted.
        DeadlineExceeded
            If the slowest worker is still more than `staleness` steps behind after the timeout. The
            step is counted.
        Error
            If the box cannot be reached.
        """
        if self._closed:
            raise FailedPrecondition("AsyncSGD.step: the object is closed; open another one")
        self._shapes.check("AsyncSGD.step", gradients)
        self._shapes.check("AsyncSGD.step", arrays, writable=True)
        self._pending.finish(self._timeout)
        # Not the memory of the step before: one that an exception has ended may be on its way.
        flat: Flat = self._client.array((self._shapes.size,), self._shapes.dtype).array
        self._shapes.gather(gradients, flat)
        if self._usable(flat):
            self._pending.begin(self._segment.post.accumulate(flat, -self._rate))
        # The box applies a client's changes in their order: who sees the count sees the weights.
        counted = self._counters.add(self._worker, 1)
        self._pending.finish(self._timeout)
        self._counters.finish(self._worker, counted, self._timeout)
        self._counters.wait_until(
            self._near, "the slowest worker did not come near enough", self._timeout
        )
        self._segment.read(flat, consistent="chunk", timeout=self._timeout)
        self._shapes.scatter(flat, arrays)

    def _facts(self) -> str:
        return f"of '{self._segment.name}', worker {self._worker}"

    def close(self, timeout: float | None = 30.0) -> None:
        """Leave the training: nothing waits for this worker any more. A second call does nothing.

        Raises
        ------
        Error
            If the box did not count this worker out, for example because the server has ended. If
            the server lives, the other workers then wait for this one. The object is closed
            nevertheless.
        """
        limit = seconds("close", timeout)
        if self._closed:
            return
        self._closed = True
        try:
            self._counters.add(self._worker, LEFT).wait(limit)
        except NotFound:
            if not self._counters.replaced(self._worker):
                raise  # else the count is another process's, and nothing waits for this one
        finally:
            self._attached.close()

    def _usable(self, gradients: Flat) -> bool:
        if finite((gradients,)):
            return True
        if self._nonfinite == "refuse":
            raise InvalidArgument(
                "AsyncSGD.step: the gradients have NaN or infinity, which the shared weights would"
                " keep; end the training or leave the batch out, or give nonfinite='skip'"
            )
        _farwrite.log_warning(
            f"AsyncSGD: gradients of worker {self._worker} of '{self._segment.name}' had NaN or"
            " infinity; they were left out"
        )
        return False

    def _near(self, counts: Counts) -> bool:
        self._steps = int(counts[self._worker])  # also those whose wait an error has ended
        return self._steps - int(counts.min()) <= self._staleness
