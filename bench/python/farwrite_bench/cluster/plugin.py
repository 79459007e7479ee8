"""What a benchmark of the plug-in begins with: it is compiled before several processes load it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.control import end_of
from farwrite_bench.cluster.process import QUIET
from farwrite_bench.table import ProgressBar


def make_ready(log: Path) -> None:
    """Import the plug-in in another process, which compiles it if necessary.

    Raises
    ------
    FailedPrecondition
        If the plug-in cannot be loaded. The message has the end of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", "import farwrite.tensorflow"],
            env={**os.environ, **QUIET},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if ended.returncode != 0:
        raise FailedPrecondition(f"Farwrite's TensorFlow plug-in cannot be loaded; {end_of(log)}")


@contextlib.contextmanager
def measuring(*, plugin: bool = True) -> Iterator[tuple[ProgressBar, Path]]:
    """Show a progress bar and keep a folder for the children's output until the end of the block.

    With `plugin`, make the plug-in ready first.
    """
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            if plugin:
                bar(0.0, "loading the plug-in")
                make_ready(Path(logs) / "plugin.log")
            yield bar, Path(logs)
        finally:
            bar.clear()
