"""A second process with a device of its own, that does what a test asks."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import farwrite as fw
from warm_python import WarmPython


def bytes_in_sockets() -> int:
    """Return the most bytes that the kernel takes, over tcp, for a peer that reads nothing."""
    limits = (Path("/proc/sys/net/ipv4") / name for name in ("tcp_rmem", "tcp_wmem"))
    return sum(int(limit.read_text().split()[2]) for limit in limits)


def stop(process: int) -> None:
    """Stop a child of this process with SIGSTOP. Returns once all its threads have stopped.

    `os.kill` returns before: until one of the threads has been scheduled, the others go on.
    """
    os.kill(process, signal.SIGSTOP)
    ended = os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert ended is not None and ended.si_code == os.CLD_STOPPED


def stop_group(group: int) -> None:
    """Stop a process group with SIGSTOP. Returns once all threads of its processes have stopped."""
    os.killpg(group, signal.SIGSTOP)
    wait_until(lambda: {*thread_states(group)} <= {"T", "Z"})


def thread_states(group: int) -> Iterator[str]:
    """Yield the state, as proc(5) has it, of each thread of the processes of a group."""
    for stat in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group:
                yield state


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something holds that must hold soon, on a busy machine too."""
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, f"not in 60 s: {inspect.getsource(condition)}"
        time.sleep(0.01)


@dataclass
class PeerState:
    """What functions run in the peer process find there."""

    device: fw.Device
    channel: fw.Channel
    kept: dict[str, Any] = field(default_factory=dict)


def serve(endpoint: str) -> None:
    """Do what arrives on standard input, and answer on standard output."""
    orders, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)
    with (
        contextlib.suppress(EOFError, OSError),
        fw.Device() as device,
        device.connect(endpoint) as channel,
    ):
        state = PeerState(device, channel)
        while True:
            function, arguments = orders.recv()
            try:
                answers.send((function(state, *arguments), None))
            except Exception as error:
                answers.send((None, error))


class PeerProcess:
    """Starts a process that connects to `endpoint`, and ends it with the context."""

    def __init__(self, endpoint: str) -> None:
        program = "import sys, processes; processes.serve(sys.argv[1])"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = WarmPython(
            ["-c", program, endpoint], environment, stderr=None, text=False, bufsize=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._orders = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()

    def run(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call function(state, *arguments) there and return its result or raise its error."""
        self.start(function, *arguments)
        return self.result()

    def start(self, function: Callable[..., Any], *arguments: object) -> None:
        """Call function(state, *arguments) there without waiting."""
        self._orders.send((function, arguments))

    def result(self) -> Any:
        """Return what the function gave that was started last."""
        assert self._answers.poll(30), "the peer process does not answer"
        result, error = self._answers.recv()
        if error is not None:
            raise error
        return result

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End the process with SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def stop(self) -> None:
        """Stop the process with SIGSTOP, until SIGCONT."""
        stop(self._process.pid)

    @contextlib.contextmanager
    def stopped(self) -> Any:
        """Hold the process with SIGSTOP for the length of the context."""
        self.stop()
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def end(self) -> None:
        """Let the process end normally."""
        self._orders.close()
        self._answers.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


def group_lives(group: int) -> bool:
    """Tell whether any process of the process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
