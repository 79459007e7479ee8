"""Private memory as good as the box's: it starts on a page, and has huge pages.

NumPy's own memory starts 16 bytes behind a page. A large memcpy into it can take three times as
long as one into aligned memory, and the limits and MPI would look worse than they are.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def filled(size: int, value: float, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
    """Return an array of `size` bytes whose elements are all `value`."""
    mapped = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(mapped, np.uint8)[:size].view(dtype)
    array.fill(value)
    return array
