"""``farwrite config``: what a C or C++ build needs to use this installation."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

_PACKAGE = Path(__file__).resolve().parents[1]
_INCLUDE = str(_PACKAGE / "include")

# What each flag prints: arguments of a command line.
_ANSWERS = {
    "--cmake-dir": ((str(_PACKAGE / "cmake"),), "the folder of the CMake package: farwrite_DIR"),
    "--cflags": ((f"-I{_INCLUDE}",), "compiler flags"),
    "--libs": (
        (f"-L{_PACKAGE}", f"-Wl,-rpath,{_PACKAGE}", "-lfarwrite"),
        "linker flags; the program finds the library by an rpath",
    ),
    "--include-dir": ((_INCLUDE,), "the folder of the headers"),
    "--pkg-config-dir": (
        (str(_PACKAGE / "pkgconfig"),),
        "the folder of farwrite.pc, for PKG_CONFIG_PATH",
    ),
}


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``config``."""
    parser = subparsers.add_parser(
        "config",
        help=purpose,
        description="Print what a C or C++ build needs to use this installation, on one line.",
        epilog="Example: farwrite config --cflags --libs",
    )
    flags = parser.add_argument_group("at least one of").add_argument
    for flag, (answer, meaning) in _ANSWERS.items():
        flags(flag, action="append_const", dest="answers", const=answer, help=meaning)
    parser.set_defaults(run=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the answers in the order of their flags."""
    if not arguments.answers:
        arguments.parser.error(f"name at least one of {', '.join(_ANSWERS)}")
    print(shlex.join(word for answer in arguments.answers for word in answer))
    return 0
