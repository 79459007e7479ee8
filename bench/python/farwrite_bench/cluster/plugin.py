"""What a benchmark in TensorFlow begins with: libraries are compiled before processes load them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.control import end_of
from farwrite_bench.cluster.process import QUIET
from farwrite_bench.cluster.transport import RPC_OVER_FABRIC, Transport
from farwrite_bench.table import ProgressBar

PLUGIN = "import farwrite.tensorflow"
LIBRARY = "from farwrite_bench.cluster.library import load; load()"
_NAMES = {PLUGIN: "Farwrite's TensorFlow plug-in", LIBRARY: "the benchmarks' TensorFlow library"}


def make_ready(log: Path, program: str = PLUGIN) -> None:
    """Load a library in another process, which compiles it if necessary.

    Parameters
    ----------
    log : Path
        File for the output of that process.
    program : str
        `PLUGIN` or `LIBRARY`.

    Raises
    ------
    FailedPrecondition
        If the library cannot be loaded. The message has the end of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if ended.returncode != 0:
        raise FailedPrecondition(f"{_NAMES[program]} cannot be loaded; {end_of(log)}")


def programs(transports: Collection[Transport]) -> list[str]:
    """Return what `make_ready` loads for these transports."""
    library = any(each.protocol == RPC_OVER_FABRIC.protocol for each in transports)
    plugin = any(
        not each.stock and each.protocol != RPC_OVER_FABRIC.protocol for each in transports
    )
    return [PLUGIN] * plugin + [LIBRARY] * library


@contextlib.contextmanager
def measuring(*needed: str) -> Iterator[tuple[ProgressBar, Path]]:
    """Show a progress bar and keep a folder for the children's output until the end of the block.

    Make what is `needed` ready first: `PLUGIN`, `LIBRARY`.
    """
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            for number, program in enumerate(needed):
                bar(0.0, f"loading {_NAMES[program]}")
                make_ready(Path(logs) / f"library-{number}.log", program)
            yield bar, Path(logs)
        finally:
            bar.clear()
