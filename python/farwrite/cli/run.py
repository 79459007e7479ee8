"""``farwrite run``: its arguments."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from farwrite import trace
from farwrite.cli_parser import deferred, writable_file
from farwrite.options.table import find_option

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``run``."""
    parser = subparsers.add_parser(
        "run",
        help=purpose,
        usage="farwrite run [options] -- command [argument ...]",
        description="Run a TensorFlow program that uses plain gRPC on Farwrite. Its Python"
        " processes and their child processes load the plug-in right after they import TensorFlow."
        " A summary goes to standard error. The exit status is the command's, 127 if the command"
        " does not exist, or 126 if it cannot be run.",
        epilog="Example: farwrite run --compare -- python train.py",
    )
    parser.add_argument(
        "--grpc",
        action="store_true",
        help="carry the bytes of a gRPC program's connections; its library must be gRPC 1.51, as in"
        " Debian 12, and both ends must run so",
    )
    parser.add_argument(
        "--require",
        action="store_true",
        help="with --grpc: connections that cannot use Farwrite fail instead of staying on TCP",
    )
    parser.add_argument(
        "--compare",
        action="store_true",
        help="run the command twice, on stock gRPC and then on Farwrite, and print both results",
    )
    parser.add_argument(
        "--allocation",
        choices=find_option("--allocation").choices,
        help="which tensors are in registered memory: all (unified, the default), those that are"
        " sent (traced), or none, so that a copy stages them (off)",
    )
    parser.add_argument(
        "--or-grpc",
        action="store_true",
        help="if the plug-in cannot be compiled or loaded, continue over stock gRPC instead of"
        " ending with an error",
    )
    parser.add_argument(
        "--json", type=writable_file, metavar="FILE", help="also write the figures to FILE"
    )
    parser.add_argument(
        "--report",
        type=writable_file,
        metavar="FILE",
        help="also write an HTML page with the figures and edges to FILE",
    )
    trace.add_option(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=deferred("farwrite.run.command:run"))
