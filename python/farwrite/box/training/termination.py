"""Termination: workers that stop together, by shared counts of their iterations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from farwrite.arguments import choice, seconds, whole_number
from farwrite.box.training.claims import Workers, checked_client
from farwrite.box.training.counters import Counters, Counts
from farwrite.errors import FailedPrecondition
from farwrite.lifetime.closing import Closing

if TYPE_CHECKING:
    from farwrite.box import Client

MASTER = 0  # the worker that the rule "master" follows

_RULES: dict[str, Callable[[Counts, int], bool]] = {
    "master": lambda counts, target: bool(counts[MASTER] >= target),
    "first": lambda counts, target: bool(counts.max() >= target),
    "average": lambda counts, target: int(counts.sum()) >= target * counts.size,
}


class Termination(Closing):
    """Tells each worker when to stop, although workers are not equally fast.

    The counts stay in the box after the last worker. Workers that start then go on counting with
    ``takeover=True``, and are refused without. A worker that starts after the others have stopped
    stops in its first iteration.

    A context manager. Use each object in one thread.

    Parameters
    ----------
    client : Client
        The worker's connection to the box.
    name : str
        The segment of the counts. The event `name`.workers exists as long as a worker lives, and
        the segment `name`.NUMBER as long as that one does. To replace a worker that hangs, free
        the latter first.
    workers : int
        How many workers take part.
    target : int
        The number of iterations.
    rule : str
        Stop when worker 0 has done `target` iterations ("master"), when any worker has ("first"),
        or when the workers have done as many on average ("average").
    timeout : float or None
        Seconds that each call may wait for the box; None waits for ever.
    takeover : bool
        Go on with the counts of workers that have all ended.

    Raises
    ------
    InvalidArgument
        If a value is out of range, or the segment was created for another number of workers.
    AlreadyExists
        If the box has the counts of workers that have all ended, and `takeover` is False.

    References
    ----------
    ShmCaffe: termination alignment.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        workers: int,
        target: int,
        rule: str = "master",
        *,
        timeout: float | None = 30.0,
        takeover: bool = False,
    ) -> None:
        checked_client("Termination", client)
        self._rule = _RULES[choice("Termination", "rule", rule, _RULES)]
        self._target = whole_number("Termination", "target", target, 1, 2**40)
        self._timeout = seconds("Termination", timeout)
        self._name = name
        with contextlib.ExitStack() as attached:
            living = Workers("Termination", client, name, takeover, self._timeout)
            attached.callback(living.leave)
            self._counters = Counters("Termination", client, name, workers, living)
            attached.callback(self._counters.detach)
            living.begin()
            self._attached = attached.pop_all()

    def advance(self, worker: int) -> bool:
        """Count one iteration of `worker`, and return whether to stop.

        The first call for a worker takes that number for this object until `close`.

        Once a call has returned True, every later call of every worker returns True. Members of one
        group may get different answers at one iteration, because the counts change between their
        calls, and one would leave the others waiting: give the answer to `BoxGroup.agree`, or
        broadcast the root's.

        Raises
        ------
        InvalidArgument
            If `worker` is not from 0 to the number of workers - 1.
        AlreadyExists
            If another living process is that worker.
        FailedPrecondition
            If the object is closed, or the segment `name`.`worker` was freed, so that another
            process may be that worker.
        Error
            If the box cannot be reached.
        """
        self._check_open("advance")  # before the number is taken, which nothing would give back
        number = self._counters.worker(worker)
        self._counters.finish(number, self._counters.add(number, 1), self._timeout)
        return self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the rule says stop, without counting an iteration."""
        self._check_open("stopped")
        return self._rule(self._counters.read(self._timeout), self._target)

    def counts(self) -> Counts:
        """Return the iterations of each worker, as an array of int64."""
        self._check_open("counts")
        return self._counters.read(self._timeout)

    def _facts(self) -> str:
        return f"of '{self._name}'"

    def close(self, timeout: float | None = 1.0) -> None:
        """Detach from the counts, and give the workers' numbers back."""
        seconds("close", timeout)
        self._closed = True
        self._attached.close()

    def _check_open(self, call: str) -> None:
        if self._closed:
            raise FailedPrecondition(f"Termination.{call}: the object is closed; open another one")
