"""Builds the test double of the CUDA driver, and opens it in place of the driver.

With FARWRITE_TEST_GPU=1 the tests use the machine's driver and GPU instead.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import compiled

REAL = os.environ.get("FARWRITE_TEST_GPU") == "1"


def library() -> Path:
    """Compile the double if need be, and return its path."""
    return compiled.library("cuda_double")


class Double:
    """What tests ask of the double besides the driver's functions."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.cudaDoubleCalls.restype = ctypes.c_ulonglong

    def calls(self, function: str) -> int:
        """How often a function of the driver was called in this process."""
        return int(self._library.cudaDoubleCalls(function.encode()))

    def fail(self, faults: str) -> None:
        """Replace the faults: "cuMemCreate=2" lets the next call answer 2."""
        assert self._library.cudaDoubleFail(faults.encode())

    def pause(self) -> None:
        """From here on no byte moves."""
        self._library.cudaDoublePause()

    def resume(self) -> None:
        """Let the bytes move again."""
        self._library.cudaDoubleResume()
