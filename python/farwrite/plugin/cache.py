"""The cache of libraries compiled for TensorFlow: one folder for each build.

It is in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farwrite.errors import PermissionDenied

LIBRARY = "farwrite_tensorflow.so"
"""The file name of the plug-in."""


def cache_folder() -> Path:
    """Return the folder of this user's builds. The folder may not exist."""
    own = os.environ.get("FARWRITE_CACHE")
    if own:
        return Path(own).expanduser().absolute() / "tensorflow"
    shared = os.environ.get("XDG_CACHE_HOME")
    base = Path(shared) if shared and Path(shared).is_absolute() else Path.home() / ".cache"
    return base / "farwrite" / "tensorflow"


def builds() -> list[Path]:
    """Return the library of every finished build."""
    return sorted(cache_folder().glob("*/*.so"))


def size() -> int:
    """Return the bytes in the cache."""
    return sum(file.stat().st_size for file in cache_folder().rglob("*") if file.is_file())


def clean() -> int:
    """Delete every build, and return the freed bytes. Loaded plug-ins stay usable."""
    freed = size()
    if cache_folder().is_dir():
        shutil.rmtree(cache_folder())
    return freed


@contextmanager
def locked(name: str, *, waiting: str) -> Iterator[None]:
    """Lock the build `name` against other processes. Print `waiting` before a wait.

    Raises
    ------
    PermissionDenied
        If the cache cannot be written.
    """
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        lock = (cache_folder() / f"{name}.lock").open("w")
    except OSError as error:
        raise PermissionDenied(
            f"TensorFlow plug-in: the cache {cache_folder()} cannot be written"
            f" ({error.strerror}); name a folder in FARWRITE_CACHE"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(waiting, file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
