"""Processes that have imported TensorFlow: forked from one that has, because that takes 4 s each.

For the programs of these tests they are like `python PROGRAM ARGUMENTS...`: children of the process
that asks. Before the fork TensorFlow has computed nothing, and Farwrite is not loaded.

Run as a program, this is the process that forks.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
NUMBER_BYTES = 8


def number(value: int) -> bytes:
    return value.to_bytes(NUMBER_BYTES, "little")


class Forker:
    """The process that forks, as its parent sees it. It ends with its parent, or by close()."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        assert self.socket.recv(1) == b"+", "the process that imports TensorFlow ended"

    def close(self) -> None:
        self.socket.close()
        self.process.wait()

    def fork(self, request: Mapping[str, Any], streams: Sequence[int]) -> int:
        text = json.dumps(request).encode()
        # Its parent ends at once, and then the new process is a child of this one.
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self.socket, [number(len(text))], streams)
            self.socket.sendall(text)
            answer = self.socket.recv(NUMBER_BYTES, socket.MSG_WAITALL)
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert len(answer) == NUMBER_BYTES, "the process that forks has ended"
        return int.from_bytes(answer, "little")


class WarmPython(subprocess.Popen[str]):
    """As Popen([sys.executable, program, *arguments], env=environment, ...) in text mode."""

    def __init__(
        self,
        forker: Forker,
        program: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stderr: Any = subprocess.PIPE,
    ) -> None:
        self.forker = forker
        self.request = {
            "folder": os.getcwd(),
            "arguments": [str(program), *arguments],
            "environment": dict(environment),
        }
        pipe = subprocess.PIPE
        super().__init__(
            [sys.executable, *self.request["arguments"]],
            stdin=pipe,
            stdout=pipe,
            stderr=stderr,
            text=True,
        )

    def _execute_child(self, *arguments: Any) -> None:
        """What Popen calls to fork and execute."""
        pipes = arguments[10:16]  # the child's and the parent's end of each stream
        self.pid = self.forker.fork(self.request, [pipes[0], pipes[3], pipes[5]])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def serve(requests: socket.socket) -> dict[str, Any]:
    """Fork once for each request. Returns the request, in the new process that it is for."""
    requests.sendall(b"+")
    while True:
        length, streams, _, _ = socket.recv_fds(requests, NUMBER_BYTES, 3)
        if not length:
            sys.exit()
        text = requests.recv(int.from_bytes(length, "little"), socket.MSG_WAITALL)
        reader, writer = os.pipe()
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child != 0:
                os.write(writer, number(child))
                os._exit(0)
            for stream, descriptor in enumerate(streams):
                os.dup2(descriptor, stream)
        for descriptor in (writer, *streams):
            os.close(descriptor)
        if middle == 0:
            os.close(reader)
            requests.close()
            request: dict[str, Any] = json.loads(text)
            return request
        os.waitpid(middle, 0)
        requests.sendall(os.read(reader, NUMBER_BYTES))
        os.close(reader)


def main() -> None:
    import tensorflow  # noqa: F401

    request = serve(socket.socket(fileno=int(sys.argv[1])))
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
