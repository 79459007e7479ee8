"""Cached: a local copy of a segment that can tell whether it is stale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from farwrite.errors import DeadlineExceeded
from farwrite.lifetime.handle import Handle
from farwrite.memory.array import as_numpy

if TYPE_CHECKING:
    from farwrite.box.segment import Consistency, Segment


class Cached(Handle, elsewhere="pickle its array, or attach the segment in the other process"):
    """A local copy of a segment. `Segment.cached` creates it (Soft Memory Box, section 2).

    Reading `array` costs no access to the server. `stale` compares one number with the server's.

    The constructor is internal: use `Segment.cached`.
    """

    def __init__(self, segment: Segment, consistent: Consistency) -> None:
        self._segment = segment
        self._consistent = consistent
        self._own: npt.NDArray[Any] = np.empty(segment.shape, segment.dtype)
        self._version = self._read(None)

    @property
    def array(self) -> npt.NDArray[Any]:
        """The copy, as a read-only view. `refresh` changes it in place."""
        view = self._own.view()
        view.flags.writeable = False
        return view

    @property
    def version(self) -> int:
        """The segment's version when the copy was made."""
        return self._version

    @property
    def stale(self) -> bool:
        """Whether the segment has changed since the copy was made."""
        return self._segment.version != self._version

    def refresh(self, timeout: float | None = None) -> bool:
        """Read the segment again if the copy is stale.

        Parameters
        ----------
        timeout : float or None
            As `Segment.read`. After `DeadlineExceeded` the copy is an array of undefined contents,
            which counts as stale: take `array` again.

        Returns
        -------
        bool
            Whether the copy was stale.
        """
        # `stale` waits for connect's timeout, and `wait` without a timeout for ever.
        stale = self.stale if timeout is None else self._segment.wait(0, timeout) != self._version
        if not stale:
            return False
        self._version = -1  # until the read below has succeeded
        self._version = self._read(timeout)
        return True

    def _read(self, timeout: float | None) -> int:
        try:
            _, version = self._segment.read_with_version(
                self._own, consistent=self._consistent, timeout=timeout
            )
        except DeadlineExceeded:
            self._own = np.empty(self._segment.shape, self._segment.dtype)  # bytes may yet arrive
            raise
        return version

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return as_numpy(self.array, dtype, copy)

    def _facts(self) -> str:
        return f"'{self._segment.name}' at version {self._version}"
