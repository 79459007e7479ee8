"""Tasks that are forked from one process, which has imported TensorFlow before.

The import takes seconds of processor time in each process. TensorFlow starts no thread in it, so
that a process may fork behind it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite_bench.cluster.process import QUIET, Task, added_variables

_imported: dict[str, str] | None = None
"""What `import_tensorflow` set; None before it."""


class ForkedTask(Task):
    """A `Task` that is forked from a process which has imported TensorFlow.

    The first one starts that process, unless `import_tensorflow` did so.
    """

    context: Any = multiprocessing.get_context("forkserver")

    def _prepare(self, log: Path) -> None:
        if _imported is None:
            import_tensorflow({}, log.parent / "tensorflow.log")


def import_tensorflow(environment: Mapping[str, str], log: Path) -> None:
    """Start the process that tasks are forked from. It ends with this process.

    Parameters
    ----------
    environment : mapping
        Variables that must be set when a process starts, such as those of malloc. A task can add
        others, which are read later.
    log : Path
        File for the output of the import.

    Raises
    ------
    Internal
        If that process runs with other variables.
    """
    global _imported
    if _imported is not None:
        if _imported != dict(environment):
            raise Internal("bench: TensorFlow was imported with other variables; report this")
        return
    _imported = dict(environment)
    log.parent.mkdir(parents=True, exist_ok=True)
    ForkedTask.context.set_forkserver_preload(["tensorflow"])
    with added_variables({**QUIET, **environment}), _errors_to(log):
        forkserver.ensure_running()


@contextlib.contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as output:
            os.dup2(output.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
