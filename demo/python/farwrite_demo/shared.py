"""Shared memory of Python's standard library whose pages exist before the first store."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

from farwrite.errors import ResourceExhausted
from farwrite.units import format_size

FOLDER = Path("/dev/shm")  # where Linux keeps it


@contextlib.contextmanager
def shared_memory(size: int) -> Iterator[SharedMemory]:
    """Create shared memory, and remove it at the end of the block.

    Without its pages, a store into a full ``/dev/shm`` ends the process by SIGBUS, without a word.
    Containers often have 64 MiB there.

    Raises
    ------
    ResourceExhausted
        If ``/dev/shm`` has no room for it, or cannot be written.
    """
    try:
        resource_tracker.ensure_running()  # it removes the memory if this process is killed
        shared = SharedMemory(create=True, size=size)
    except OSError as error:
        raise _refused(size, error) from error
    with contextlib.closing(shared):
        try:
            _allocate(shared.name, size)
            yield shared
        finally:
            shared.unlink()


def _allocate(name: str, size: int) -> None:
    try:
        with (FOLDER / name).open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise _refused(size, error) from error


def _refused(size: int, error: OSError) -> ResourceExhausted:
    return ResourceExhausted(
        f"demo: shared memory of {format_size(size)} cannot be created: {error.strerror}; choose a"
        f" smaller --size, or give {FOLDER} more room (docker run --shm-size)"
        if error.errno == errno.ENOSPC
        else f"demo: shared memory cannot be created: {error.strerror}; {FOLDER} must be writable,"
        " and the limit of open files (ulimit -n) high enough"
    )
