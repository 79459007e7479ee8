"""Processes that have imported NumPy, or TensorFlow: forked from one that has.

NumPy takes most of the time in which `farwrite` starts, and TensorFlow 4 s. For the tests these
processes are like `python ARGUMENTS...`: children of the process that asks. Before the fork
TensorFlow has computed nothing, and Farwrite is not loaded.

Run as a program, this is the process that forks.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import io
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNET = 0x40000000
NUMBER_BYTES = 8
USED_BY_ALL = (
    "argparse",
    "contextlib",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "subprocess",
)
"""Modules of Python that every command of Farwrite imports."""


def number(value: int) -> bytes:
    return value.to_bytes(NUMBER_BYTES, "little")


class Forker:
    """The process that forks, as its parent sees it. It ends with its parent, or by close()."""

    def __init__(self, environment: Mapping[str, str], *modules: str) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *modules],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        assert self.socket.recv(1) == b"+", f"the process that imports {modules} ended"

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


@functools.cache
def with_numpy() -> Forker:
    """Of this process, for all tests: conftest.py starts and ends it."""
    return Forker(os.environ, "numpy", *USED_BY_ALL)


class WarmPython(subprocess.Popen[Any]):
    """As Popen([sys.executable, *arguments], env=environment, ...), by default with pipes of text.

    What Python or the imported modules read of their environment is that of the forker. The process
    runs in the network namespace of the path `network`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        forker: Forker | None = None,
        network: str | None = None,
        **options: Any,
    ) -> None:
        self.forker = forker or with_numpy()
        self.request = {
            "folder": os.getcwd(),
            "arguments": list(arguments),
            "network": network,
            "environment": dict(os.environ if environment is None else environment),
        }
        pipe = subprocess.PIPE
        defaults = {"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True}
        super().__init__([sys.executable, *arguments], **{**defaults, **options})

    def _execute_child(self, *arguments: Any) -> None:
        """What Popen calls to fork and execute."""
        pipes = arguments[10:16]  # the child's and the parent's end of each stream, or -1
        streams = [pipes[0], pipes[3], pipes[5]]
        inherited = [stream if stream != -1 else at for at, stream in enumerate(streams)]
        self.pid = self.forker.fork(self.request, inherited)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def run_python(
    *arguments: str, environment: Mapping[str, str] | None = None, seconds: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS...` to its end, with its output."""
    with WarmPython(arguments, environment) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


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
            # What they know of the streams is of those before.
            sys.stdout, sys.stderr = unbuffered(1, "strict"), unbuffered(2, "backslashreplace")
            request: dict[str, Any] = json.loads(text)
            return request
        os.waitpid(middle, 0)
        requests.sendall(os.read(reader, NUMBER_BYTES))
        os.close(reader)


def unbuffered(descriptor: int, errors: str) -> io.TextIOWrapper:
    """Return a stream that writes text to the descriptor at once."""
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)  # type: ignore[arg-type,unused-ignore]


def run(arguments: Sequence[str]) -> None:
    """Do what `python ARGUMENTS...` does, for the options that the tests use."""
    if arguments[0] == "-u":  # as all are here
        arguments = arguments[1:]
    option, words = arguments[0], list(arguments[1:])
    if option == "-c":
        sys.path[0], sys.argv = "", [option, *words[1:]]
        exec(compile(words[0], "<string>", "exec"), vars(sys.modules["__main__"]))
    elif option == "-m":
        sys.path[0], sys.argv = os.getcwd(), words
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = os.path.dirname(os.path.abspath(option)), [option, *words]
        runpy.run_path(option, run_name="__main__")


def main() -> None:
    for module in sys.argv[2:]:
        importlib.import_module(module)
    # Each process would go through these objects, of which TensorFlow has 300,000, when it ends.
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request["network"] is not None:
        with open(request["network"]) as namespace:
            assert ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET) == 0
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for folder in reversed(os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        if folder and folder not in sys.path[1:]:
            sys.path.insert(1, folder)
    run(request["arguments"])


if __name__ == "__main__":
    main()
