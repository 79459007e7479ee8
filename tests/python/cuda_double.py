"""Builds the test double of the CUDA driver, and opens it in place of the driver.

With FARWRITE_TEST_GPU=1 the tests use the machine's driver and GPU instead.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "cuda_double"
BUILT = Path(__file__).parents[2] / "build" / "cuda_double"
REAL = os.environ.get("FARWRITE_TEST_GPU") == "1"


def library() -> Path:
    """Compile the double unless its sources have been compiled before, and return its path."""
    sources = sorted(SOURCES.glob("*.cc"))
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    path = BUILT / digest.hexdigest()[:16] / "libcuda_double.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            building = path.with_suffix(".building")
            # As one: the headers take most of the time.
            whole = "".join(f'#include "{source}"\n' for source in sources)
            command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-o", building]
            subprocess.run([*command, "-x", "c++", "-"], input=whole, text=True, check=True)
            building.rename(path)
    return path


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
