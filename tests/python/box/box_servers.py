"""A box in another process, which a test can stop."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from warm_python import WarmPython


@contextlib.contextmanager
def other_process() -> Iterator[tuple[str, int]]:
    """A box in another process: its endpoint and its process number."""
    words = ["-m", "farwrite", "box", "serve", "--memory", "64M", "--pool", "4M"]
    process = WarmPython(words)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.kill()
        process.communicate()
