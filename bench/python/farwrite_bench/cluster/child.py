"""The child's side: its control pipe, and its end together with its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Failure:
    """The last message of a child that fails."""

    message: str


def run(main: Callable[[Connection], None]) -> NoReturn:
    """Run `main` as `serve` does, in a process that was started by itself.

    The first argument of the command line is the pipe's descriptor, the second the parent's id.
    """
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    serve(main, Connection(descriptor))


def serve(main: Callable[[Connection], None], control: Connection) -> NoReturn:
    """Run `main` with the control pipe, then exit at once, because TensorFlow's exit may hang."""
    status = 0
    try:
        main(control)
    except (EOFError, BrokenPipeError):
        pass  # the parent closed the pipe: the work is done
    except BaseException as error:
        status = 1
        traceback.print_exc()
        _send(control, Failure(f"{type(error).__name__}: {error}"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


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
