"""The running UCX program: two processes that follow orders in turn with Farwrite's."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from farwrite.errors import PeerDead

TUNED = {"UCX_TLS": "sm,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
"""Settings of UCX unless the environment has others: its shared memory, and copies by the kernel
(cma), without the look for adapters and GPUs."""

ANSWER_SECONDS = 120.0
_END_SECONDS = 10.0


def settings() -> dict[str, str]:
    """Return every UCX_ variable of a run: the tuned ones, below those of the environment."""
    given = {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
    return {**TUNED, **given}


@dataclass(frozen=True)
class Figures:
    """What one loop gave. `samples_us` is empty unless transfers went one at a time."""

    seconds: float
    bad: int
    samples_us: list[float]


class Program:
    """Both processes. Use it as a context manager.

    Raises
    ------
    farwrite.errors.PeerDead
        From every method, if either process fails. Its own sentence is above, on stderr.
    """

    def __init__(self, command: Sequence[object], library: Path) -> None:
        # Without it, a libucp of the system takes the place of the one that was found.
        paths = [str(library / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        self._process = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **settings(), "LD_LIBRARY_PATH": ":".join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout
        self._unread = b""
        self.identity: dict[str, Any] = {}

    def __enter__(self) -> Program:
        try:
            self.identity = self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def run(
        self,
        way: str,
        kind: str,
        size: int,
        transfers: int,
        *,
        window: int = 1,
        read: bool = True,
        seed: int = 0,
    ) -> Figures:
        """Run one loop; `kind` is "latency" or "bandwidth"."""
        order = f"{way} {kind} {size} {transfers} {window} {int(read)} {seed}\n"
        try:
            self._orders.write(order.encode())
            self._orders.flush()
        except OSError:
            self._fail("ended early")
        answer = self._answer()
        return Figures(float(answer["seconds"]), int(answer["bad"]), answer["samples_us"])

    def _answer(self) -> dict[str, Any]:
        while b"\n" not in self._unread:
            if not select.select([self._answers], [], [], ANSWER_SECONDS)[0]:
                self._fail(f"sent nothing for {ANSWER_SECONDS:.0f} s")
            piece = os.read(self._answers.fileno(), 1 << 16)
            if not piece:
                self._fail("ended early")
            self._unread += piece
        line, self._unread = self._unread.split(b"\n", 1)
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            self._fail(f"sent {line[:100]!r} instead of an answer")
        return answer

    def _fail(self, what: str) -> NoReturn:
        with contextlib.suppress(subprocess.TimeoutExpired):
            what = f"{what} (exit status {self._process.wait(0.5)})"
        raise PeerDead(f"bench p2p: the UCX program {what}; its own message is above")

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._orders.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()
