"""Lease: one version of a segment, pinned."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite import _farwrite
from farwrite.box.element import Layout
from farwrite.errors import FailedPrecondition
from farwrite.lifetime.handle import Handle
from farwrite.memory.array import as_numpy


class Lease(
    Handle,
    elsewhere="pickle a copy, lease.array.copy(), or attach the segment in the other process",
):
    """One version of a segment, pinned. `Segment.lease` creates it.

    A context manager. The memory is the server's own on one host. It stays pinned until the lease
    has ended and every view of `array` is deleted: no end of the client, the connection or the
    server changes it. A forked child may read it as long as the child lives.

    The constructor is internal: use `Segment.lease`.
    """

    def __init__(
        self, data: npt.NDArray[np.uint8], epoch: int, version: int, layout: Layout
    ) -> None:
        self._data: npt.NDArray[np.uint8] | None = data
        self._epoch = epoch
        self._version = version
        self._layout = layout

    @property
    def array(self) -> npt.NDArray[Any]:
        """The pinned elements: read-only, of the segment's shape and dtype."""
        return self._layout.over(self.data)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The pinned bytes: read-only, in one dimension."""
        data = self._data  # once: another thread may end the lease
        if data is None:
            raise FailedPrecondition(
                "use a lease: it has ended; take another one with Segment.lease() or"
                " Subscriber.latest()"
            )
        return data

    def private(self) -> npt.NDArray[np.uint8]:
        """View the bytes as a writable array of this process alone, which keeps the lease.

        A page is copied when it is written. Internal.
        """
        return _farwrite.copy_on_write(self.data)

    @property
    def ended(self) -> bool:
        """Whether `close` was called. Internal."""
        return self._data is None

    @property
    def version(self) -> int:
        """The version of the elements, in its epoch."""
        return self._version

    @property
    def epoch(self) -> int:
        """The epoch of the version; see `Segment.epoch`."""
        return self._epoch

    def close(self) -> None:
        """End the lease. Closing twice is allowed."""
        self._data = None

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return as_numpy(self.array, dtype, copy)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _facts(self) -> str:
        return f"of version {self._version}"

    def _state(self) -> str:
        return "ended" if self.ended else ""
