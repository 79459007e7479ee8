"""What a benchmark in TensorFlow begins with: libraries are compiled before processes load them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.control import end_of
from farwrite_bench.cluster.process import QUIET
from farwrite_bench.cluster.transport import PLUGIN, Transport
from farwrite_bench.table import progress_bar

LOAD = "import importlib, os, sys; importlib.import_module(sys.argv[1]); os._exit(0)"
"""Exits at once: TensorFlow's exit takes most of a second."""


def make_ready(log: Path, module: str = PLUGIN) -> None:
    """Import a module that loads a library, in another process, which compiles it if necessary.

    Parameters
    ----------
    log : Path
        File for the output of that process.
    module : str
        `PLUGIN`, or the module of another transport.

    Raises
    ------
    FailedPrecondition
        If the library cannot be loaded. The message has the end of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", LOAD, module],
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if ended.returncode != 0:
        raise FailedPrecondition(f"{module} cannot be loaded; {end_of(log)}")


def programs(transports: Collection[Transport]) -> list[str]:
    """Return what `make_ready` loads for these transports."""
    return list(dict.fromkeys(each.module for each in transports if each.module is not None))


@contextlib.contextmanager
def measuring(*needed: str) -> Iterator[tuple[Callable[..., None], Path]]:
    """Show a progress bar and keep a folder for the children's output until the end of the block.

    Make the modules that are `needed` ready first, each once.
    """
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs, progress_bar() as bar:
        for number, module in enumerate(dict.fromkeys(needed)):
            bar(0.0, f"loading {module}")
            make_ready(Path(logs) / f"library-{number}.log", module)
        yield bar, Path(logs)
