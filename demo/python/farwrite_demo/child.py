"""A second process of a demo, with a pipe to the first. It never outlives the first."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from farwrite.errors import PeerDead

ANSWER_SECONDS = 120.0
END_SECONDS = 2.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Failure:
    """The last message of a process that fails."""

    message: str


class Child:
    """Runs a function in another process until it returns or this process closes the pipe.

    Parameters
    ----------
    name : str
        The name in messages.
    main : callable
        Takes its end of the pipe, then `arguments`.
    log : Path, optional
        File for what the process prints.
    start : str
        "spawn", or "fork" to keep what this process has imported.
    """

    def __init__(
        self,
        name: str,
        main: Callable[..., None],
        *arguments: object,
        log: Path | None = None,
        start: str = "spawn",
    ) -> None:
        self._name, self._log = name, log
        context: Any = multiprocessing.get_context(start)
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(main, theirs, arguments, log, os.getpid()), name=name
        )
        self._process.start()
        theirs.close()

    def send(self, message: object) -> None:
        """Send an object that can be pickled."""
        with contextlib.suppress(OSError):  # it has ended, and `receive` says why
            self._pipe.send(message)

    def receive(self, seconds: float = ANSWER_SECONDS) -> Any:
        """Wait for the next message.

        Raises
        ------
        PeerDead
            If the process failed, ended, or sent nothing for `seconds`.
        """
        message: object = Failure("it ended early")
        with contextlib.suppress(EOFError, OSError):
            message = (
                self._pipe.recv()
                if self._pipe.poll(seconds)
                else Failure(f"it sent nothing for {seconds:.0f} s")
            )
        if isinstance(message, Failure):
            more = f"; its output is in {self._log}" if self._log else ""
            raise PeerDead(f"demo: the process '{self._name}' failed: {message.message}{more}")
        return message

    def check(self) -> None:
        """Raise `PeerDead` if the process has ended."""
        if not self._process.is_alive():
            self.receive(0)

    def ask(self, message: object) -> Any:
        """Send a message and return the answer."""
        self.send(message)
        return self.receive()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pipe.close()
        self._process.join(END_SECONDS if kind is None else 0)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def _run(
    main: Callable[..., None],
    pipe: Connection,
    arguments: tuple[object, ...],
    log: Path | None,
    parent: int,
) -> NoReturn:
    # Ctrl-C reaches all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    status = int(os.getppid() != parent)
    if log is not None:
        with log.open("ab") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
    try:
        if status == 0:
            main(pipe, *arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the first process closed the pipe: the work is done
    except BaseException as error:
        status = 1
        traceback.print_exc()
        with contextlib.suppress(OSError):
            pipe.send(Failure(f"{type(error).__name__}: {error}"))
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # it was closed where the command began
            stream.flush()
    os._exit(status)  # the exit of TensorFlow may hang
