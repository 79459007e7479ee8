"""``farwrite box``: its arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from farwrite.cli_parser import deferred
from farwrite.units import parse_seconds, parse_size

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers, purpose: str) -> None:
    """Add the subcommand ``box``."""
    parser = subparsers.add_parser(
        "box",
        help=purpose,
        description="A box holds named segments of memory that many processes share. Its server"
        " adds up what they send.",
        epilog="Example: farwrite box serve --listen 127.0.0.1:7800",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_list(commands)


def _add_serve(commands: Subparsers) -> None:
    serve = commands.add_parser(
        "serve",
        help="serve a box until SIGINT, SIGTERM or SIGHUP",
        description="Serve a box. The first line printed is the address at which clients connect;"
        " for --listen 0.0.0.0:PORT, which listens on every address, it has one of this host."
        " SIGINT, SIGTERM and SIGHUP end the server; nohup keeps SIGHUP away. With --snapshot it"
        " then writes a last snapshot, with every change that a client knows to be applied.",
        epilog="Example: farwrite box serve --listen 127.0.0.1:7800 --snapshot snapshots",
    )
    serve.add_argument(
        "--listen", metavar="HOST:PORT",
        help="address for clients; port 0 picks a free one (default: FARWRITE_LISTEN, or"
        " 127.0.0.1:0)",
    )  # fmt: skip
    serve.add_argument(
        "--memory", type=_parsed(parse_size), metavar="SIZE", default=parse_size("1G"),
        help="limit for segments and for changes on their way, 2M or more (default: 1G)",
    )  # fmt: skip
    serve.add_argument(
        "--pool", type=_parsed(parse_size), metavar="SIZE",
        help="memory taken at the start (default: 64M, or --memory if that is less)",
    )  # fmt: skip
    serve.add_argument(
        "--threads", type=int, metavar="N", default=0,
        help="threads for one large change (default: as many as processors)",
    )  # fmt: skip
    _add_token_file(serve)
    serve.add_argument(
        "--metrics", metavar="PORT|HOST:PORT", help="serve Prometheus metrics at this address"
    )
    serve.add_argument(
        "--snapshot",
        metavar="DIR",
        help="write snapshots into this folder; created if it is missing, and without --restore"
        " it must hold none",
    )
    serve.add_argument(
        "--snapshot-every", type=_parsed(parse_seconds), metavar="TIME",
        help="time from one snapshot to the next, for example 60s (default: only at the end)",
    )  # fmt: skip
    serve.add_argument(
        "--restore", action="store_true", help="start with the newest whole snapshot of --snapshot"
    )
    serve.set_defaults(run=deferred("farwrite.box.command:run_serve"))


def _add_list(commands: Subparsers) -> None:
    listing = commands.add_parser(
        "list",
        help="print the segments of a box as a table",
        description="Connect to a box and print its segments as a table.",
        epilog="Example: farwrite box list 127.0.0.1:7800",
    )
    listing.add_argument("endpoint", metavar="HOST:PORT", help="address of the server")
    _add_token_file(listing)
    listing.set_defaults(run=deferred("farwrite.box.command:run_list"))


def _add_token_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file", metavar="FILE",
        help="file with the token that server and clients share (default: FARWRITE_TOKEN_FILE)",
    )  # fmt: skip


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
