"""An array of words in multiprocessing.shared_memory."""

from __future__ import annotations

from multiprocessing import shared_memory
from types import TracebackType

import numpy as np
import numpy.typing as npt


class SharedWords:
    """An array of 64-bit words in shared memory. A context manager that frees it.

    Parameters
    ----------
    count : int
        Length of the array.
    name : str, optional
        Name of existing memory. Without it new memory is created, and removed at the end.
    """

    def __init__(self, count: int, name: str | None = None) -> None:
        self._owned = name is None
        self._memory = shared_memory.SharedMemory(name, create=self._owned, size=count * 8)
        assert self._memory.buf is not None
        self.words: npt.NDArray[np.uint64] = np.frombuffer(self._memory.buf, np.uint64, count)

    @property
    def name(self) -> str:
        """The name with which another process attaches to it."""
        return self._memory.name

    def __enter__(self) -> SharedWords:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # The memory can be unmapped only after the last view is gone; this is the last view.
        del self.words
        if self._owned:
            self._memory.unlink()
        self._memory.close()
