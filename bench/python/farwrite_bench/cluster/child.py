"""The child's end: its control pipe, and its promise to die with its parent."""

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
    """What a child says before it gives up."""

    message: str


def run(main: Callable[[Connection], None]) -> NoReturn:
    """Run `main` with the control pipe, then leave at once: TensorFlow's own end may hang.

    The command line's first argument is the pipe's descriptor, the second the parent's id.
    """
    descriptor, parent = int(sys.argv[1]), int(sys.argv[2])
    # Ctrl-C reaches the whole group; the parent decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    control = Connection(descriptor)
    status = 0
    try:
        main(control)
    except (EOFError, BrokenPipeError):
        pass  # the parent hung up: the work is over
    except BaseException as error:
        status = 1
        traceback.print_exc()
        _tell(control, Failure(f"{type(error).__name__}: {error}"))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _tell(control: Connection, failure: Failure) -> None:
    try:
        control.send(failure)
    except OSError:
        print("the parent hung up before it heard of this", file=sys.stderr)
