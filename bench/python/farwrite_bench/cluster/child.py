"""The child's side: its control pipe, and its end together with its parent."""

from __future__ import annotations

import ctypes
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Failure:
    """The last message of a child that fails."""

    message: str


def begin(
    module: str,
    environment: Mapping[str, str],
    log: str,
    control: Connection,
    first: Callable[[], object] | None,
) -> NoReturn:
    """Run the function ``main`` of a module, in a process that `Task` started.

    Then exit at once, because TensorFlow's exit may hang.
    """
    end_with_parent(signal.SIGKILL)
    if first is not None:
        first()
    threading.Thread(target=_end_with_starter, name="end with starter", daemon=True).start()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    os.environ.update(environment)
    status = 0
    try:
        importlib.import_module(module).main(control)
    except (EOFError, BrokenPipeError):
        pass  # the parent closed the pipe: the work is done
    except BaseException as error:
        status = 1
        traceback.print_exc()
        _send(control, Failure(f"{type(error).__name__}: {error}"))
    for written in (sys.stdout, sys.stderr):
        if written is not None:  # it was closed where the command began
            written.flush()
    os._exit(status)


def _end_with_starter() -> None:
    """End this process when the one that started the task ends.

    The kernel's signal comes when the process that forks ends, and that one waits for its tasks.
    """
    starter = multiprocessing.parent_process()
    assert starter is not None, "tasks are started by multiprocessing"
    starter.join()
    os._exit(1)


def end_with_parent(number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends, and ignore Ctrl-C.

    Ctrl-C reaches the whole process group; the parent ends its children.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    receive_at_parents_end(number)


def receive_at_parents_end(number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends, even after ``exec``."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _send(control: Connection, failure: Failure) -> None:
    try:
        control.send(failure)
    except OSError:
        print("the parent closed the pipe before it received this error", file=sys.stderr)
