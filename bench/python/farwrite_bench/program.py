"""A child program that follows orders, a line each, and answers with lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from farwrite.errors import PeerDead
from farwrite_bench.cluster.control import end_of, ran, status_of

ANSWER_SECONDS = 120.0
END_SECONDS = 20.0
_DYING_SECONDS = 2.0
"""How long an error waits for the exit status of a program that ends."""


class Program:
    """A running child program. Use it as a context manager, whose end ends the program.

    Parameters
    ----------
    bench : str
        The benchmark in messages, such as "bench p2p".
    name : str
        Name in messages, such as "the sending process".
    command : sequence of str
        The command line.
    environment : mapping
        Variables that are added to the environment of this process.
    log : Path
        File for standard error. Without it, the program writes to that of this process.
    descriptors : sequence of int
        File descriptors that the program inherits.
    own_group : bool
        Start a process group, and end all of it by SIGKILL: for commands that start the program.

    Raises
    ------
    PeerDead
        From every method, if the program ends early, fails or sends nothing. The message has the
        end of its log.
    """

    def __init__(
        self,
        bench: str,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        log: Path | None = None,
        descriptors: Sequence[int] = (),
        own_group: bool = False,
    ) -> None:
        self.name = name
        self._bench, self._log, self._own_group = bench, log, own_group
        self._command = shlex.join(command)
        self._unread = b""
        with contextlib.ExitStack() as stack:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if log is None else stack.enter_context(log.open("wb")),
                pass_fds=descriptors,
                start_new_session=own_group,
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

    def answer(self, seconds: float | None = ANSWER_SECONDS) -> dict[str, Any]:
        """Wait for an answer; None waits as long as the program runs."""
        give_up = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._unread:
            left = None if give_up is None else max(give_up - time.monotonic(), 0.0)
            if not select.select([self._answers], [], [], left)[0]:
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
        """Fail if the program has ended."""
        if self._process.poll() is not None:
            self._fail("ended early")

    def close_orders(self) -> None:
        """Send no more orders, so that the program ends by itself."""
        with contextlib.suppress(OSError):
            self._orders.close()

    def wait(self, seconds: float = END_SECONDS) -> None:
        """Close the orders, and wait for a good end."""
        self.close_orders()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._fail(f"did not end within {seconds:.0f} s")
        if status != 0:
            self._fail("failed at its end")

    def last_words(self) -> str:
        """Return the last lines of its log, for a message."""
        return "its own message is above" if self._log is None else end_of(self._log)

    def end(self) -> None:
        """End the program: by the end of its orders or, if it stays or has a group, by SIGKILL."""
        if self._own_group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.close_orders()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _fail(self, what: str) -> NoReturn:
        # Its last words may be on their way.
        with contextlib.suppress(subprocess.TimeoutExpired):
            what += status_of(self._process.wait(_DYING_SECONDS))
        raise PeerDead(
            f"{self._bench}: {self.name} {what}; {ran(self._command)}; {self.last_words()}"
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
