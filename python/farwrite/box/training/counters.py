"""Counters: one number for each worker, in a segment of the box."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from farwrite.arguments import whole_number
from farwrite.box.training.claims import Workers, claim, give_back
from farwrite.errors import (
    AlreadyExists,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)

if TYPE_CHECKING:
    from farwrite.box import Client, Segment, Update

Counts = NDArray[np.int64]

MOST_WORKERS = 2**16


class Counters:
    """Counts that every worker can read. Each one belongs to one living process.

    The segment stays in the box.

    Parameters
    ----------
    operation : str
        What error sentences name.
    client : Client
        The worker's connection to the box.
    name : str
        The segment, which the first worker creates with zeros.
    number : int
        How many workers, and counts, there are.
    workers : Workers
        Those of the training.
    anew : bool
        Whether the first worker drops the counts that an earlier training has left.

    Raises
    ------
    AlreadyExists
        As `Workers.open`.
    InvalidArgument
        If the segment was created for another number of workers.
    """

    def __init__(
        self,
        operation: str,
        client: Client,
        name: str,
        number: int,
        workers: Workers,
        anew: bool = False,
    ) -> None:
        self._operation = operation
        self._client = client
        self._name = name
        self._number = whole_number(operation, "workers", number, 1, MOST_WORKERS)
        self._claims: dict[int, Segment] = {}
        if anew and workers.preparing:
            with contextlib.suppress(NotFound):
                client.attach(name, 0).free()
        self._segment, _ = workers.open(
            name, lambda: client.create(name, (self._number,), np.int64)
        )
        if self._segment.layout.text != "<i8" or self._segment.shape != (self._number,):
            self._segment.detach()
            raise InvalidArgument(
                f"{operation}: '{name}' has the counts of {self._segment.size} workers, and this"
                f" process was told of {self._number}; give every process the same number"
            )

    def worker(self, worker: int) -> int:
        """Check that `worker` has a count, and that no other process uses it; return it.

        Raises
        ------
        InvalidArgument
            If there is no such worker.
        AlreadyExists
            If a living process is that worker.
        """
        number = whole_number(self._operation, "worker", worker, 0, self._number - 1)
        if number not in self._claims:
            try:
                claimed = claim(
                    lambda: self._client.create(
                        f"{self._name}.{number}", (1,), np.int64, buffers=2, temporary=True
                    )
                )
            except AlreadyExists:
                raise AlreadyExists(
                    f"{self._operation}: a living process is worker {number} of '{self._name}';"
                    " give each process a number, or the other training another name"
                ) from None
            try:
                claimed.fill(1)
            except BaseException:
                give_back(claimed)
                raise
            # Only now: `add` multiplies by what is in it, and zeros would count nothing.
            self._claims[number] = claimed
        return number

    def add(self, worker: int, number: int) -> Update:
        """Add `number` to the count of `worker`, unless another process is that worker by now.

        The change is refused with `NotFound` then: its source is this process's claim, which was
        freed before the other process took the number.
        """
        claim = self._claim(worker)
        return self._segment.post.accumulate(claim, number, start=worker, count=1)

    def _claim(self, worker: int) -> Segment:
        try:
            return self._claims[worker]
        except KeyError:
            raise FailedPrecondition(
                f"{self._operation}: another thread or a signal handler closed the object during"
                " the call; open another one"
            ) from None

    def replaced(self, worker: int) -> bool:
        """Whether the claim of `worker` was freed, so that another process may be that worker."""
        try:
            _ = self._claim(worker).version
        except NotFound:
            return True
        return False

    def finish(self, worker: int, added: Update, timeout: float | None) -> None:
        """Wait until the box has applied what `add` returned.

        Raises
        ------
        FailedPrecondition
            If another process is that worker by now. The count has not changed.
        """
        try:
            added.wait(timeout)
        except NotFound:
            if not self.replaced(worker):
                raise
            raise FailedPrecondition(
                f"{self._operation}: this process is no longer worker {worker} of '{self._name}',"
                f" because '{self._name}.{worker}' was freed, and another process may be that"
                " worker; close this object"
            ) from None

    def read(self, timeout: float | None) -> Counts:
        """Return all counts, of one moment."""
        counts: Counts = self._segment.read(timeout=timeout)
        return counts

    def wait_until(
        self, reached: Callable[[Counts], bool], waiting: str, timeout: float | None
    ) -> Counts:
        """Wait until `reached` is true of the counts, and return them.

        Raises
        ------
        DeadlineExceeded
            If that took longer than `timeout` seconds; `waiting` says for what.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            counts, version = self._segment.read_with_version(timeout=timeout)
            if reached(counts):
                return cast(Counts, counts)
            left = None if end is None else max(end - time.monotonic(), 0)
            try:
                self._segment.wait(version + 1, left)
            except DeadlineExceeded:
                raise DeadlineExceeded(
                    f"{self._operation}: {waiting} within {timeout} s; the counts of the workers"
                    f" are {counts.tolist()}; start a worker again that has ended, or open with a"
                    " longer timeout or more staleness"
                ) from None

    def detach(self) -> None:
        """End the attachment, and give the workers' numbers back."""
        while self._claims:
            give_back(self._claims.popitem()[1])
        self._segment.detach()
