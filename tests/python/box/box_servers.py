"""A box in another process, which a test can stop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from warm_python import WarmPython


@contextlib.contextmanager
def other_process(**environment: str) -> Iterator[tuple[str, int]]:
    """A box in another process: its endpoint and its process number."""
    words = ["-m", "farwrite", "box", "serve", "--memory", "128M", "--pool", "4M"]
    process = WarmPython(words, {**os.environ, **environment})
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.kill()
        process.communicate()
