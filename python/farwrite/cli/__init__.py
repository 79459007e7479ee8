"""The command ``farwrite``."""

from __future__ import annotations

import argparse
import errno
import fcntl
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

from farwrite.cli.interrupts import Terminated, kept_interrupts, terminations
from farwrite.cli_parser import USAGE_ERROR, Parser, Subparsers
from farwrite.errors import Error, InvalidArgument
from farwrite.info import version
from farwrite.log import LOG_LEVELS, set_log_level
from farwrite.trace import traced

COMMANDS = {
    "info": "show the fabrics, copy kernels and limits of this machine",
    "config": "print flags and folders for C and C++ builds",
    "options": "list every option, and check what the environment sets",
    "tensorflow": "compile the TensorFlow plug-in, or analyze a graph",
    "run": "run an unmodified TensorFlow or gRPC program on Farwrite",
    "box": "serve a parameter box, or list its segments",
}
"""What each is for. It is a module here with add_parser(subparsers, purpose), which adds the
subcommand. Its parser sets `run`, a function that takes the parsed arguments and returns the exit
status."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of a write
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "end programs that hold files open",
    errno.EAGAIN: "end other processes, or raise their limit (ulimit -u)",
    errno.ENOMEM: "end other programs, or raise the limit of memory (ulimit -v)",
    errno.EROFS: "use a folder that can be written",
    errno.EACCES: "let this user use it, or name another",
    errno.ENAMETOOLONG: "name another file or folder",
    errno.ENOENT: "create it, or name another",
}
"""What to do about an error of the system that may meet any command."""
_VERSION_HELP = "show program's version number and exit"  # as argparse words it
_ENDED_BY_SIGPIPE = 128 + signal.SIGPIPE  # as a shell says it of other programs


def parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the subcommands of other packages.

    With the words of a command line, it parses that line alone: modules of commands that the words
    do not name are not imported.
    """
    top = Parser(
        prog="farwrite",
        description="Each command has its own help and an example: farwrite COMMAND --help.",
        epilog="Example: farwrite run -- python train.py",
    )
    top.purpose = "move arrays between processes by one-sided memory writes"
    top.add_argument("--version", action=_Version)
    top.add_argument(
        "--log",
        choices=LOG_LEVELS,
        help="log level of this command and its processes (default: FARWRITE_LOG, or warning)",
    )
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    assert isinstance(subparsers, Subparsers)
    subparsers.words = words
    if words is not None:
        subparsers.whole = _whole
    for name, purpose in COMMANDS.items():
        if not subparsers.needs(name):
            subparsers.add_parser(name)
        elif subparsers.lists():
            subparsers.add_parser(name, help=purpose)
        else:
            importlib.import_module(f"farwrite.cli.{name}").add_parser(subparsers, purpose)
    if subparsers.named() not in COMMANDS:
        # Its search through what is installed takes as long as all else of a help.
        from farwrite.cli.entry_points import add_commands

        add_commands(subparsers)
    return top


def _whole() -> Subparsers:
    (found,) = (each for each in parser()._actions if isinstance(each, Subparsers))
    return found


class _Version(argparse.Action):
    """Prints the version, which takes a search through what is installed."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=_VERSION_HELP)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"farwrite {version()}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a terminal or a file cannot show, such as a name in a box, is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run_and_flush(words)
    except BrokenPipeError:
        # Who read the output has enough of it: `farwrite options | head`. Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _ENDED_BY_SIGPIPE
    except OSError as error:
        closed = error.errno == errno.EBADF and not _can_write(sys.stdout)
        if error.errno not in _NO_ROOM and not closed:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        cause = "standard output is not open for writing; open it, or send it to /dev/null"
        if not closed:
            cause = f"{error.strerror}; let it go where there is room"
        sys.stderr.write(f"farwrite: the output is lost: {cause}\n")
        return 1


def _run_and_flush(words: Sequence[str]) -> int:
    try:
        status = _run(words)
    except SystemExit:  # after a help or the version, or a wrong use
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return status


def _can_write(stream: TextIO) -> bool:
    """Tell whether the stream's file is open for writing."""
    try:
        mode = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        return False
    return mode != os.O_RDONLY


def _open_closed_streams() -> None:
    """Open the standard streams that were closed at the start, to the null device.

    Their numbers must not become those of files of ours, and print() would write to standard output
    for standard error. What a command writes to a closed output is lost, and an error: that file is
    open for reading alone. Commands that this one starts find input and output closed, as it did.
    """
    if sys.stdin is None:
        sys.stdin = _nowhere(0, "r", os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = _nowhere(1, "w", os.O_RDONLY)
    if sys.stderr is None:
        sys.stderr = _nowhere(2, "w", os.O_WRONLY)
        os.set_inheritable(2, True)


def _nowhere(number: int, mode: str, access: int) -> io.TextIOWrapper:
    opened = os.open(os.devnull, access)
    if opened != number:
        os.dup2(opened, number, inheritable=False)
        os.close(opened)
    return io.TextIOWrapper(io.FileIO(number, mode, closefd=False))


def _run(words: Sequence[str]) -> int:
    parsed = parser(words).parse_args(words)
    try:
        if parsed.log is not None:
            set_log_level(parsed.log)
            os.environ["FARWRITE_LOG"] = parsed.log
        with kept_interrupts(), terminations(), traced(getattr(parsed, "trace", None)):
            return int(parsed.run(parsed))
    except InvalidArgument as error:
        parsed.command_parser.print_usage(sys.stderr)
        sys.stderr.write(parsed.command_parser.line(error))
        return USAGE_ERROR
    except Error as error:
        sys.stderr.write(parsed.command_parser.line(error))
        return 1
    except OSError as error:
        if error.errno not in _REMEDIES:
            raise
        what = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
        line = parsed.command_parser.line(f"stopped: {what}; {_REMEDIES[error.errno]}")
        sys.stderr.write(line)
        return 1
    except Terminated as ended:
        sys.stdout.flush()
        ended.end()
        raise  # where the signal is blocked
    except KeyboardInterrupt:
        sys.stderr.write(parsed.command_parser.line("interrupted"))
        return 130
