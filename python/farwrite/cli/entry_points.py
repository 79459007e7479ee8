"""Commands that other packages add by entry points of the group ``farwrite.commands``.

An entry point's name is the name of its command. Its object has ``add_parser(subparsers)``, which
adds a subparser of that name and sets its default ``run``: a function that takes the parsed
arguments and returns the exit status. `subparsers` is a `Subparsers`, so that a command with many
parts can import only those that the command line names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

from farwrite.cli_parser import Parser, Subparsers
from farwrite.errors import FailedPrecondition

GROUP = "farwrite.commands"
PACKAGES = {
    **dict.fromkeys(("bench", "report"), "farwrite-bench"),
    "demo": "farwrite-demo",
    **dict.fromkeys(("plan", "reproduce"), "farwrite-experiments"),
}
"""Commands that are part of Farwrite and come in another package."""
PURPOSES = {
    "bench": "measure Farwrite against the physical limit of this machine",
    "demo": "hand 1 GiB to another process in four ways, and compare them",
    "plan": "predict a training step on more workers, and what limits it",
    "report": "make one HTML page of the results of benchmarks",
    "reproduce": "run the papers' benchmarks, and make one page of results",
}
"""What these are for: `farwrite --help` then needs none of their modules."""


def add_commands(subparsers: Subparsers) -> None:
    """Add the installed commands, and for each that does not work one that says why.

    A command that the command line does not need becomes a name without options.
    """
    installed = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    for entry in installed:
        if entry.name in subparsers.choices:
            if subparsers.words is not None:  # else it has been said for the command line
                print(
                    f"farwrite: {_origin(entry)} adds a second command '{entry.name}', which is"
                    " left out; uninstall the package that should not have it",
                    file=sys.stderr,
                )
            continue
        if not subparsers.needs(entry.name):
            subparsers.add_parser(entry.name)
            continue
        if subparsers.lists() and entry.dist and PACKAGES.get(entry.name) == entry.dist.name:
            subparsers.add_parser(entry.name, help=PURPOSES[entry.name])
            continue
        fault = _fault(entry, subparsers.words)
        if fault is None:
            entry.load().add_parser(subparsers)
        else:
            _add_unusable(subparsers, entry.name, fault)
    for name, package in PACKAGES.items():
        if name not in subparsers.choices:
            missing = (
                f"the command is in the package {package}; install it, or run `make install` in a"
                " checkout"
            )
            _add_unusable(subparsers, name, missing)


def _fault(entry: EntryPoint, words: Sequence[str] | None) -> str | None:
    """Try the entry point on a parser of its own, because half a parser cannot be taken back."""
    trial = Parser().add_subparsers()
    assert isinstance(trial, Subparsers)
    trial.words = words
    origin = _origin(entry)
    try:
        add_parser: Callable[[Subparsers], None] = entry.load().add_parser
        add_parser(trial)
    except Exception as error:
        return (
            f"{origin} cannot be loaded ({type(error).__name__}: {error});"
            " reinstall the package, at a version for this Farwrite"
        )
    if list(trial.choices) != [entry.name]:
        return f"{origin} adds {_list(trial.choices)} instead; report this to the package's authors"
    return None


def _origin(entry: EntryPoint) -> str:
    package = f" of the package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"the entry point {entry.name} = {entry.value}{package}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "no command"


def _add_unusable(subparsers: Subparsers, name: str, fault: str) -> None:
    # No argument starts with this prefix, so the words of any command line end up in `words`.
    parser = subparsers.add_parser(
        name, help=f"(not usable: {fault})".replace("%", "%%"), prefix_chars="\0", add_help=False
    )
    parser.add_argument("words", nargs="*")
    parser.set_defaults(run=partial(_refuse, f"{name}: {fault}"))


def _refuse(sentence: str, _: argparse.Namespace) -> NoReturn:
    raise FailedPrecondition(sentence)
