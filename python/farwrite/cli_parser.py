"""The parser of every command: what the command is for, an example, and the nearest name."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from farwrite.errors import FailedPrecondition
from farwrite.nearest import did_you_mean as did_you_mean

if TYPE_CHECKING:
    SubParsersAction = argparse._SubParsersAction[Any]
else:
    SubParsersAction = argparse._SubParsersAction

_OTHER_NAMES = {"--port": "--listen", "--host": "--listen", "--address": "--listen"}
"""What other programs call an option."""
USAGE_ERROR = 2
"""The exit status of a command whose arguments are wrong."""

Names = TypeVar("Names")


@contextlib.contextmanager
def named_if_unwritable(path: Path) -> Iterator[None]:
    """Name the file in an error of the system that meets the block, which writes it.

    Raises
    ------
    FailedPrecondition
        If the file cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has enough of it
    except OSError as error:
        raise FailedPrecondition(
            f"cannot write {path}: {error.strerror}; name another file"
        ) from error


def writable_file(text: str) -> Path:
    """Return the path of a file that a command writes after its work.

    Its folder is made if only its last part is missing, as that of a box's snapshots is: more that
    is missing is a mistyped path, or a disk that is not there.

    Raises
    ------
    ArgumentTypeError
        If it cannot be written, before the work instead of after it.
    """
    if not text:  # the path of "" would be this folder
        raise argparse.ArgumentTypeError("the path is empty; name a file, or leave the option out")
    path = Path(text)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.touch()
            path.unlink()
        elif path.is_file():  # to open a pipe would wait for its reader
            path.open("a").close()
    except FileNotFoundError:
        raise argparse.ArgumentTypeError(
            f"cannot write {path}: the folder {path.parent.parent} does not exist; create it, or"
            " name another file"
        ) from None
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"cannot write {path}: {error.strerror}; name another file"
        ) from None
    return path


def deferred(place: str) -> Callable[[argparse.Namespace], int]:
    """Return what runs a command: ``module:function``, imported then and not for the help."""
    module, _, name = place.partition(":")

    def run(arguments: argparse.Namespace) -> int:
        return int(getattr(importlib.import_module(module), name)(arguments))

    return run


class Parser(argparse.ArgumentParser):
    """A parser whose help begins with its command's purpose, and whose errors suggest a name.

    The parsers of its subcommands are of this class. Their epilog is one example of a command line.
    """

    purpose = ""
    """What the command is for, in a few words; the `help` of `add_parser`."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.register("action", "parsers", Subparsers)

    def format_help(self) -> str:
        """Return the help; its first line is the command's name and purpose, as in a manual."""
        heading = f"{self.prog} - {self.purpose}\n\n" if self.purpose else ""
        return heading + super().format_help()

    def parse_known_args(  # type: ignore[override]  # of overloads, one is enough here
        self, args: Sequence[str] | None = None, namespace: Names | None = None
    ) -> tuple[Any, list[str]]:
        """Parse as the base class, but refuse unknown arguments here.

        The base class leaves them to the parser of `farwrite`, which does not know the options of
        the command, and prints its own usage.
        """
        parsed, unknown = super().parse_known_args(args, namespace)
        if not hasattr(parsed, "command_parser"):  # the parser of a subcommand comes first
            setattr(parsed, "command_parser", self)  # noqa: B010  # any object may be a namespace
        if unknown:
            hint = self._nearest_option(unknown[0].partition("=")[0])
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        self._refuse_one_file_twice(parsed)
        return parsed, unknown

    def _nearest_option(self, option: str) -> str:
        known = self._option_string_actions
        meant = _OTHER_NAMES.get(option)
        if meant in known:
            return f"; did you mean {meant!r}?"
        if not option.startswith("--"):
            return did_you_mean(option, known if option.startswith("-") else ())
        # Dashes are alike in all of them.
        names = {name.removeprefix("--"): name for name in known if name.startswith("--")}
        hint = did_you_mean(option.removeprefix("--"), names)
        return hint.replace("mean '", "mean '--")

    def _refuse_one_file_twice(self, parsed: Any) -> None:
        """Print an error if two options name one file, of which only the last text would stay."""
        named: dict[Path, str] = {}
        for action in self._actions:
            path = getattr(parsed, action.dest, None) if action.type is writable_file else None
            if path is None or path.is_relative_to("/dev"):
                continue
            option = action.option_strings[0]
            other = named.setdefault(path.resolve(), option)
            if other != option:
                self.error(f"{other} and {option} both name {path}; name two files")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with status 2."""
        for action in self._actions:
            missing = f"arguments are required: {action.metavar}"
            if isinstance(action, Subparsers) and message.endswith(missing):
                message += f" (choose from {', '.join(map(repr, action.choices))})"
        self.print_usage(sys.stderr)
        self.exit(USAGE_ERROR, self.line(message))

    def line(self, message: object) -> str:
        """Return what the command prints to standard error: its name, and the message."""
        text = str(message)
        before, _, rest = text.partition(": ")
        if f" {before} " in f" {self.prog} ":  # an error's own "bench: " or "bench p2p: "
            text = rest
        return f"{self.prog}: {text}\n"

    def _print_message(self, message: str, file: Any = None) -> None:
        # The base class passes over an output that cannot be written.
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        hint = did_you_mean(str(value), names)
        if not hint:
            deeper = [name for name in _subcommands(action) if name.endswith(f" {value}")]
            hint = did_you_mean(str(value), deeper, alike=0)
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r}{hint} (choose from {', '.join(map(repr, names))})"
        )


class Subparsers(SubParsersAction):
    """The subcommands of a command, and the command line that they are made for."""

    words: Sequence[str] | None = None
    """The words after `farwrite`. None means any command line, as the reference pages need."""
    whole: Callable[[], Subparsers] | None = None
    """Makes the same subcommands for any command line."""

    def add_parser(self, name: str, **keywords: Any) -> Any:
        """Add a subcommand; `help` becomes the first line of its help."""
        parser = super().add_parser(name, **keywords)
        parser.purpose = (keywords.get("help") or "").replace("%%", "%")
        return parser

    def named(self) -> str | None:
        """Return the command that `words` name, or what asks for the list of them; else None."""
        words = iter(self.words or ())
        for word in words:
            if word.startswith("-h") or word in ("--h", "--he", "--hel"):
                return "--help"
            if word.startswith("--l") and "=" not in word:
                next(words, None)  # the level of --log, which may be named as a command is
            elif word in ("--help", "-", "--") or not word.startswith("-"):
                return word
        return None

    def lists(self) -> bool:
        """Tell whether parsing `words` only lists the commands."""
        return self.named() == "--help"

    def needs(self, command: str) -> bool:
        """Tell whether parsing `words` needs the parser of `command`."""
        return self.words is None or self.lists() or command in self.words


def _subcommands(action: argparse.Action) -> Iterator[str]:
    """Yield the subcommands of the commands that `action` chooses from, as they are typed."""
    if not isinstance(action, Subparsers):
        return
    if action.whole is not None:
        action = action.whole()
    for parser in action.choices.values():
        for inner in parser._actions:
            if isinstance(inner, Subparsers):
                yield from (choice.prog for choice in inner.choices.values())
