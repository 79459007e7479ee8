"""Runs the user's command as a child process, with the hook in its environment."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, NamedTuple

from farwrite.errors import ResourceExhausted, Unavailable
from farwrite.run.inside import MODE
from farwrite.run.program import not_started, script_of_a_shell
from farwrite.run.summary import VARIABLE, Summary, read_summaries

HOOK = Path(__file__).parent / "hook"
FORWARDED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to the command as well, if this process is in its foreground."""
LOOK_SECONDS = 0.1


class Run(NamedTuple):
    """The result of one run of a command."""

    transport: str
    """"grpc" or "farwrite"."""
    wall_seconds: float
    exit_status: int
    """As in a shell: 128 plus the signal's number if a signal killed the command."""
    output: tuple[str, ...] | None
    """The lines of its standard output; None if the run did not read them."""
    processes: tuple[Summary, ...]
    """The processes that imported TensorFlow."""


def run_command(
    command: Sequence[str],
    *,
    stock: bool,
    options: Mapping[str, str],
    look: bool,
    stdin: int | None = None,
) -> Run:
    """Run `command` to its end, and forward signals to it.

    Parameters
    ----------
    stock : bool
        Only measure, and do not load the plug-in.
    options : Mapping[str, str]
        Additional environment variables of the command.
    look : bool
        Read the standard output while passing it on.
    stdin : int or None
        Descriptor of the command's standard input; None inherits this process's.

    Raises
    ------
    NotFound, PermissionDenied
        If `command` cannot be started.
    """
    with _summary_folder() as folder:
        file = folder / "summary"
        search = filter(None, (str(HOOK), os.environ.get("PYTHONPATH")))
        environment = {
            **os.environ,
            **options,
            "PYTHONPATH": os.pathsep.join(search),
            MODE: "stock" if stock else "farwrite",
            VARIABLE: str(file),
        }
        began = time.monotonic()
        output = subprocess.PIPE if look else None
        with started(command, environment, stdin, output) as child:
            lines: list[str] = []
            ended = threading.Event()
            lost: list[OSError] = []
            copier = threading.Thread(
                target=_copy, args=(child.stdout, ended, lines, lost), daemon=True
            )
            if look:
                copier.start()
            status = child.wait()
            wall = time.monotonic() - began
            ended.set()
            if look:
                copier.join()
            if lost:
                raise Unavailable(
                    f"run: what the command wrote is lost: standard output: {lost[0].strerror};"
                    " let it go where there is room"
                )
        return Run(
            "grpc" if stock else "farwrite",
            wall,
            status if status >= 0 else 128 - status,
            tuple(lines) if look else None,
            tuple(read_summaries(file)),
        )


def say(text: str) -> None:
    """Print to standard error. If its reader is gone, only the text is lost, not the status."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # Python flushes at exit


@contextlib.contextmanager
def _summary_folder() -> Iterator[Path]:
    """Make a folder for the summaries, and remove it although processes may still write there."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="farwrite-run-"))
    except OSError as error:
        raise ResourceExhausted(
            f"run: there is no room for temporary files: {error.strerror or error}; set TMPDIR to a"
            " folder that can be written"
        ) from error
    try:
        yield folder
    finally:
        # What the command left running writes by the folder's name. Under another one nothing new
        # can come into it while it is emptied.
        closed = folder.with_name(f"{folder.name}-closed")
        try:
            folder.rename(closed)
            shutil.rmtree(closed)
        except OSError as error:
            say(f"farwrite run: cannot remove {error.filename}: {error}")


@contextlib.contextmanager
def started(
    command: Sequence[str],
    environment: dict[str, str],
    stdin: int | None,
    output: int | None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start `command`, and pass signals on to it as long as the context lasts."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        if child is None:
            early.append(number)
        elif number not in OF_TERMINAL or not _in_foreground():
            child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        try:
            child = _popen(list(command), environment, stdin, output)
        except OSError as error:
            raise not_started(command[0], error) from error
        for number in early:
            child.send_signal(number)
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _popen(
    command: list[str], environment: dict[str, str], stdin: int | None, output: int | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command, env=environment, stdin=stdin, stdout=output)
    except OSError as error:
        script = script_of_a_shell(command[0]) if error.errno == errno.ENOEXEC else None
        if script is None:
            raise
        command = ["/bin/sh", str(script), *command[1:]]
        return subprocess.Popen(command, env=environment, stdin=stdin, stdout=output)


def _in_foreground() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _copy(source: IO[bytes], ended: threading.Event, lines: list[str], lost: list[OSError]) -> None:
    # Until every process has closed it, or the command has ended and what it wrote is read:
    # something that it left running may hold its output open for ever.
    rest = b""
    with source:
        while True:
            last = ended.is_set()
            if select.select([source], [], [], 0 if last else LOOK_SECONDS)[0]:
                piece = os.read(source.fileno(), 2**16)
                if not piece:
                    break
                try:
                    sys.stdout.buffer.write(piece)
                    sys.stdout.buffer.flush()
                except BrokenPipeError:
                    pass  # its reader has enough
                except OSError as error:
                    lost.append(error)
                *whole, rest = (rest + piece).split(b"\n")
                lines += (line.decode(errors="replace") for line in whole)
            elif last:
                break
    if rest:
        lines.append(rest.decode(errors="replace"))
