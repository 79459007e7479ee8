"""One process of the gRPC program, which follows orders line by line."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from farwrite.errors import PeerDead

ANSWER_SECONDS = 60.0
END_SECONDS = 20.0
LOG_LINES_SHOWN = 8
QUIET = {"GRPC_VERBOSITY": "ERROR", "no_grpc_proxy": "127.0.0.1,localhost"}


class Program:
    """A running process of the program.

    Parameters
    ----------
    name : str
        Name in messages, such as "server 0".
    command : sequence of str
        The command line.
    environment : mapping
        Variables that are added to the environment of this process.
    log : Path
        File for standard error.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name = name
        self._log = log
        self._unread = b""
        with log.open("wb") as errors:
            # A group of its own: what runs the program is ended together with it. The program also
            # ends by itself, at the end of its input, if this process is killed.
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, **QUIET, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout

    def order(self, *words: object) -> None:
        """Send an order."""
        try:
            self._orders.write(" ".join(map(str, words)).encode() + b"\n")
            self._orders.flush()
        except OSError:
            self._fail("ended early")

    def answer(self, seconds: float = ANSWER_SECONDS) -> dict[str, Any]:
        """Wait for an answer.

        Raises
        ------
        PeerDead
            If the process ended or sent nothing. The message has the end of its log.
        """
        give_up = time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = give_up - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                self._fail(f"sent nothing for {seconds:.0f} s")
            piece = os.read(self._answers.fileno(), 1 << 16)
            if not piece:
                self._fail("ended early")
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError:
            self._fail(f"sent {line[:100]!r} instead of an answer")
        return found

    def ask(self, *words: object) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        self.order(*words)
        return self.answer()

    def check(self) -> None:
        """Fail if the process has ended.

        Raises
        ------
        PeerDead
            If it has.
        """
        if self._process.poll() is not None:
            self._fail("ended early")

    def wait(self, seconds: float = END_SECONDS) -> None:
        """Wait for the end of the process after the order to end.

        Raises
        ------
        PeerDead
            If it fails or does not end.
        """
        with contextlib.suppress(OSError):
            self._orders.close()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._fail(f"did not end within {seconds:.0f} s")
        if status != 0:
            self._fail("failed at its end")

    def _fail(self, what: str) -> NoReturn:
        # Its last words may be on their way.
        with contextlib.suppress(subprocess.TimeoutExpired):
            what = f"{what} (exit status {self._process.wait(0.5)})"
        raise PeerDead(f"bench grpc: {self.name} {what}; {self.end_of_log()}")

    def end_of_log(self) -> str:
        """Return the last lines of its log, for a message."""
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        tail = "".join(f"\n    {line[:300]}" for line in lines)
        return f"the end of its log:{tail or ' (empty)'}"

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        with contextlib.suppress(OSError):
            self._orders.close()
        self._answers.close()
