"""Counters: one number for each worker, in a segment of the box."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from farwrite.arguments import whole_number
from farwrite.errors import DeadlineExceeded

if TYPE_CHECKING:
    from farwrite.box import Client, Update

Counts = NDArray[np.int64]

MOST_WORKERS = 2**16


class Counters:
    """Counts that every worker can add to and read. The segment stays in the box.

    Parameters
    ----------
    operation : str
        What error sentences name.
    client : Client
        The worker's connection to the box.
    name : str
        The segment, which the first worker creates with zeros.
    workers : int
        How many counts there are.
    """

    def __init__(self, operation: str, client: Client, name: str, workers: int) -> None:
        self.workers = whole_number(operation, "workers", workers, 1, MOST_WORKERS)
        self._operation = operation
        self._segment = client.create(name, (self.workers,), np.int64, exclusive=False)

    def worker(self, worker: int) -> int:
        """Check that `worker` has a count, and return it."""
        return whole_number(self._operation, "worker", worker, 0, self.workers - 1)

    def add(self, worker: int, number: int) -> Update:
        """Add `number` to the count of `worker`."""
        return self._segment.post.accumulate(np.array([number], np.int64), start=worker)

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
                    f" are {counts.tolist()}"
                ) from None

    def detach(self) -> None:
        """End the attachment."""
        self._segment.detach()
