"""``farwrite config``: what a C or C++ build needs to use this installation."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

_PACKAGE = Path(__file__).resolve().parents[1]
_INCLUDE = str(_PACKAGE / "include")


def _grpc_cflags() -> tuple[str, ...]:
    from farwrite.run.grpc_component import find_component

    return (f"-I{find_component() / 'include'}",)


def _grpc_libs() -> tuple[str, ...]:
    from farwrite.run.grpc_component import find_component

    folder = find_component()
    return f"-L{folder}", f"-Wl,-rpath,{folder}", "-lfarwrite_grpc"


# What each flag prints: arguments of a command line, or a function that finds them.
_ANSWERS: dict[str, tuple[tuple[str, ...] | Callable[[], tuple[str, ...]], str]] = {
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
    "--grpc-cflags": (_grpc_cflags, "compiler flags of farwrite/grpc.h, the component for gRPC"),
    "--grpc-libs": (_grpc_libs, "linker flags of that component; name them before gRPC's"),
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
    found = (each() if callable(each) else each for each in arguments.answers)
    print(shlex.join(word for answer in found for word in answer))
    return 0
