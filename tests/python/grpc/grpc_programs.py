"""Starts and ends gRPC's own test programs, which `make grpc-programs` builds."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from pathlib import Path
from types import TracebackType

import pytest
import sanitized
from grpc_statistics import VARIABLE, Statistics, read_statistics

from processes import group_lives, stop_group

REPOSITORY = Path(__file__).parents[3]
PROGRAMS = REPOSITORY / "build/grpc/programs" / sanitized.PRESET
SOURCE = REPOSITORY / ".cache/grpc/grpc-1.51.1"
LISTENING = "0A"
START_SECONDS = 30.0
END_SECONDS = 30.0
"""Servers look for SIGINT every 5 seconds, and a busy machine takes its time."""
LINES_SHOWN = 30


def require_programs(*names: str) -> None:
    """Skip the calling module if one of the programs is not built."""
    for name in names:
        if not (PROGRAMS / name).is_file():
            pytest.skip(f"{name} is not built; type: make grpc-programs", allow_module_level=True)


def listens(port: int) -> bool:
    """Tell whether a socket of this machine listens on the port, without connecting to it."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


class GrpcProgram:
    """A running program, killed with its children at the end of the context.

    Parameters
    ----------
    command : sequence of str
        The program with its arguments and whatever stands before it.
    folder : Path
        Where its log and its statistics go.
    name : str
        Names the two files in `folder`.
    environment : mapping
        Variables that are added to the environment of this process.
    obeys : bool
        Whether it answers lines of its standard input: see `ask`.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        name: str,
        environment: Mapping[str, str] | None = None,
        obeys: bool = False,
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._statistics = folder / f"{name}.statistics"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "GRPC_VERBOSITY": "DEBUG",
                    "no_grpc_proxy": "127.0.0.1,localhost",
                    VARIABLE: str(self._statistics),
                    **sanitized.ENVIRONMENT,
                    **(environment or {}),
                },
                stdin=subprocess.PIPE if obeys else subprocess.DEVNULL,
                stdout=subprocess.PIPE if obeys else log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """What it wrote to its output and its error output so far."""
        return self._log.read_text(errors="replace")

    def wait_until_it_listens(self, port: int) -> None:
        """Wait until the port is open, and fail if the program ends instead."""
        give_up = time.monotonic() + START_SECONDS
        while not listens(port):
            assert self._process.poll() is None, f"{self.name} ended early: {self._end_of_log()}"
            assert time.monotonic() < give_up, (
                f"{self.name} does not listen on port {port}: {self._end_of_log()}"
            )
            time.sleep(0.02)

    def wait_for(self, text: str) -> None:
        """Wait until its log has the text, and fail if it ends without."""
        give_up = time.monotonic() + START_SECONDS
        while text not in self.log:
            ended = self._process.poll() is not None and text not in self.log
            assert not ended, f"{self.name} ended before '{text}': {self._end_of_log()}"
            assert time.monotonic() < give_up, (
                f"{self.name} did not write '{text}': {self._end_of_log()}"
            )
            time.sleep(0.02)

    def ask(self, order: str, seconds: float = END_SECONDS) -> str:
        """Write a line to its input, and return the line of its output that follows."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None and answers is not None
        orders.write(f"{order}\n".encode())
        orders.flush()
        answer = b""
        give_up = time.monotonic() + seconds
        while not answer.endswith(b"\n"):
            ready = connection.wait([answers], give_up - time.monotonic())
            piece = os.read(answers.fileno(), 65536) if ready else b""
            assert piece, f"{self.name} does not answer '{order}': {answer!r}{self._end_of_log()}"
            answer += piece
        return answer.decode(errors="replace").rstrip("\n")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it and its children."""
        os.killpg(self._process.pid, number)

    def stop(self) -> None:
        """Stop it and its children with SIGSTOP, until SIGCONT."""
        stop_group(self._process.pid)

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for its end; return its status, negative for a signal."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} runs for {seconds:.0f} s: {self._end_of_log()}")

    def succeed(self, seconds: float = 60.0) -> Statistics | None:
        """Wait for its end, and fail unless it ends well; return its statistics."""
        status = self.wait(seconds)
        assert status == 0, f"{self.name} ended with status {status}: {self._end_of_log()}"
        return read_statistics(self._statistics)

    def end_input(self) -> Statistics | None:
        """End its input, and fail unless it ends well; return its statistics."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.succeed(END_SECONDS)

    def interrupt(self) -> Statistics | None:
        """End it and its children as Ctrl-C would, normally; return its statistics."""
        self.send(signal.SIGINT)
        return self.succeed(END_SECONDS)

    def _end_of_log(self) -> str:
        return "\n    ".join(["", *self.log.splitlines()[-LINES_SHOWN:]])

    def __enter__(self) -> GrpcProgram:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if group_lives(self._process.pid):
            self.send(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if sanitized.PRESET:
            found = [text for text in sanitized.FINDINGS if text in self.log]
            assert not found, f"the sanitizer found in {self.name}: {self.log}"
