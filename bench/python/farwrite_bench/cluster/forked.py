"""Tasks that are forked from one process, which has imported TensorFlow before.

The import takes seconds of processor time in each process. TensorFlow starts no thread in it, so
that a process may fork behind it.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import Pipe, forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from farwrite.errors import Internal
from farwrite_bench.cluster import child
from farwrite_bench.cluster.control import Control
from farwrite_bench.cluster.process import END_SECONDS, QUIET

_CONTEXT = multiprocessing.get_context("forkserver")


_imported: dict[str, str] | None = None
"""What `import_tensorflow` set; None before it."""


class ForkedTask(Control):
    """A child process that runs the function ``main`` of a module with a control pipe.

    It has the parameters and the use of `farwrite_bench.cluster.process.Task`. The first one starts
    the process that they are forked from, unless `import_tensorflow` did so. It calls `first`,
    which can be pickled, before it has a second thread.
    """

    def __init__(
        self,
        name: str,
        module: str,
        environment: Mapping[str, str],
        log: Path,
        *,
        first: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        if _imported is None:
            import_tensorflow({}, log.parent / "tensorflow.log")
        ours, theirs = Pipe()
        super().__init__(ours, f"task {name}", log)
        with theirs:
            self._process = _CONTEXT.Process(
                target=_begin,
                args=(module, dict(environment), str(log), theirs, first),
                daemon=True,
            )
            self._process.start()

    def __enter__(self) -> ForkedTask:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        self._process.join(END_SECONDS if kind is None else 0.2)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


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
    _CONTEXT.set_forkserver_preload(["tensorflow"])
    with _variables({**QUIET, **environment}), _errors_to(log):
        forkserver.ensure_running()


@contextlib.contextmanager
def _variables(added: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


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


def _begin(
    module: str,
    environment: Mapping[str, str],
    log: str,
    control: Connection,
    first: Callable[[], object] | None,
) -> None:
    child.end_with_parent(signal.SIGKILL)
    if first is not None:
        first()
    threading.Thread(target=_end_with_starter, name="end with starter", daemon=True).start()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.update(environment)
    child.serve(importlib.import_module(module).main, control)


def _end_with_starter() -> None:
    """End this process when the one that started the task ends.

    The kernel's signal comes only when the process that forks ends, and that one waits for its
    tasks.
    """
    starter = multiprocessing.parent_process()
    assert starter is not None, "tasks are started by multiprocessing"
    starter.join()
    os._exit(1)
