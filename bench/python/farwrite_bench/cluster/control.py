"""The parent's end of a child's control pipe, and the log of a child that fails."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NoReturn

from farwrite.errors import PeerDead
from farwrite_bench.cluster.child import Failure

START_SECONDS = 120.0
"""Long, because importing TensorFlow from a cold disk is slow."""
LOG_LINES_SHOWN = 12
LOG_WIDEST, COMMAND_WIDEST = 300, 500
"""The most letters of a line of a log, and of a command."""


class Control:
    """Exchanges messages with one child.

    Parameters
    ----------
    connection : Connection
        The parent's end of the pipe.
    name : str
        What messages call the child, such as "task server".
    log : Path
        The file with the child's output.
    command : str
        What the child runs, for messages.
    """

    def __init__(self, connection: Connection, name: str, log: Path, command: str) -> None:
        self._connection, self._name, self._log = connection, name, log
        self._command = command

    def send(self, message: object) -> None:
        """Send an object that can be pickled."""
        try:
            self._connection.send(message)
        except OSError:
            self._fail(f"ended early{self._status()}")

    def receive(self, seconds: float = START_SECONDS) -> object:
        """Wait for the child's next message.

        Raises
        ------
        PeerDead
            If the child failed, ended, or sent nothing. The message has the end of its log.
        """
        try:
            silent = not self._connection.poll(seconds)
            message: object = None if silent else self._connection.recv()
        except (EOFError, OSError):
            self._fail(f"ended early{self._status()}")
        if silent:
            self._fail(f"sent nothing for {seconds:.0f} s")
        if isinstance(message, Failure):
            self._fail(f"failed: {message.message}")
        return message

    def ask(self, message: object) -> object:
        """Send a message and return the answer."""
        self.send(message)
        return self.receive()

    def _status(self) -> str:
        """Return how the child ended, to go on with after "ended early", or nothing."""
        return ""

    def close(self) -> None:
        """Close the pipe, which ends the child."""
        self._connection.close()

    def _fail(self, what: str) -> NoReturn:
        raise PeerDead(f"{self._name} {what}; {ran(self._command)}; {end_of(self._log)}")


def receive_all(
    asked: Sequence[Control], seconds: float, beside: Sequence[Control] = ()
) -> list[object]:
    """Wait for the next message of each child in `asked`, in any order.

    Parameters
    ----------
    asked : sequence of Control
        The children that answer.
    seconds : float
        How long all of them together may take.
    beside : sequence of Control
        Children that have nothing to say, and must not end meanwhile.

    Returns
    -------
    list
        The messages, in the order of `asked`.

    Raises
    ------
    PeerDead
        As soon as any child failed or ended, or after `seconds`.
    """
    deadline = time.monotonic() + seconds
    silent: dict[object, Control] = {child._connection: child for child in (*asked, *beside)}
    messages: dict[Control, object] = {}
    while any(child not in messages for child in asked):
        connections = [child._connection for child in silent.values()]
        ready = wait(connections, max(0.0, deadline - time.monotonic()))
        if not ready:
            next(child for child in asked if child not in messages)._fail(
                f"sent nothing for {seconds:.0f} s"
            )
        for connection in ready:
            child = silent.pop(connection)
            messages[child] = child.receive()
    return [messages[child] for child in asked]


def status_of(code: int) -> str:
    """Describe how a process ended, by the code that Python's subprocess gives, as a remark."""
    if code >= 0:
        return f" (exit status {code})"
    return f" (killed by signal {-code}, {signal.strsignal(-code)})"


def ran(command: str) -> str:
    """Return a command for an error's sentence, in one line; a long one without its end."""
    line = " ".join(command.split())
    return f"command: {line if len(line) <= COMMAND_WIDEST else f'{line[: COMMAND_WIDEST - 3]}...'}"


def end_of(log: Path) -> str:
    """Return the last lines of a log, to end an error's sentence with."""
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    if not lines:
        return "it printed nothing"
    return f"the end of {log}:" + "".join(f"\n    {line[:LOG_WIDEST]}" for line in lines)
