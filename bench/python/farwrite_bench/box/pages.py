"""Private memory as good as the box's: it starts on a page, and has huge pages.

NumPy's own memory starts 16 bytes behind a page. A large memcpy into it can take three times as
long as one into aligned memory, and the limits and MPI would look worse than they are.
"""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt


def floats(elements: int, value: float) -> npt.NDArray[np.float32]:
    """Return `elements` of float32, all of them `value`."""
    array = _pages(elements * 4).view(np.float32)
    array.fill(value)
    return array


def octets(size: int, value: int) -> npt.NDArray[np.uint8]:
    """Return `size` bytes, all of them `value`."""
    array = _pages(size)
    array.fill(value)
    return array


def _pages(size: int) -> npt.NDArray[np.uint8]:
    mapped = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)[:size]
