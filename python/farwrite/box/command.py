"""``farwrite box``: serve a parameter box, and list its segments."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from farwrite.box.client import connect
from farwrite.box.segment import SegmentInfo
from farwrite.box.server import serve
from farwrite.errors import InvalidArgument, NotFound, Unauthenticated
from farwrite.units import format_size, parse_seconds, parse_size

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``box``."""
    parser = subparsers.add_parser(
        "box",
        help="serve a parameter box, or list its segments",
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
        description="Serve a box. The first line printed is the address at which clients connect."
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
        help="limit for segments and for changes on their way (default: 1G)",
    )  # fmt: skip
    serve.add_argument(
        "--pool", type=_parsed(parse_size), metavar="SIZE", default=parse_size("64M"),
        help="memory taken at the start (default: 64M)",
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
    serve.set_defaults(run=run_serve)


def _add_list(commands: Subparsers) -> None:
    listing = commands.add_parser(
        "list",
        help="print the segments of a box as a table",
        description="Connect to a box and print its segments as a table.",
        epilog="Example: farwrite box list 127.0.0.1:7800",
    )
    listing.add_argument("endpoint", metavar="HOST:PORT", help="address of the server")
    _add_token_file(listing)
    listing.set_defaults(run=run_list)


def _add_token_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file", metavar="FILE",
        help="file with the token that server and clients share (default: FARWRITE_TOKEN_FILE)",
    )  # fmt: skip


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if (arguments.restore or arguments.snapshot_every) and not arguments.snapshot:
        raise InvalidArgument("box serve: --restore and --snapshot-every need --snapshot DIR")
    _use_token_file(arguments.token_file)
    given = {} if arguments.metrics is None else {"metrics": arguments.metrics}
    with (
        _signals_end() as ended,
        serve(
            listen=arguments.listen,
            memory=arguments.memory,
            pool=min(arguments.pool, arguments.memory),
            threads=arguments.threads,
            snapshot=arguments.snapshot,
            snapshot_every=arguments.snapshot_every,
            restore=arguments.restore,
            **given,
        ) as server,
    ):
        print(server.endpoint, flush=True)
        ended.wait()
        server.close(snapshot=arguments.snapshot is not None)
    return 0


def run_list(arguments: argparse.Namespace) -> int:
    """Print the table."""
    _use_token_file(arguments.token_file)
    try:
        with connect(arguments.endpoint, timeout=5.0) as client:
            print("\n".join(table(client.list())))
    except Unauthenticated as error:
        raise Unauthenticated(f"{error}; here, --token-file names the file") from None
    return 0


def table(segments: Iterable[SegmentInfo]) -> Iterable[str]:
    """Yield the lines of the table."""
    rows = [("name", "key", "dtype", "shape", "size", "version", "clients")]
    rows += [
        (
            _printable(segment.name),
            str(segment.key),
            "event" if segment.nbytes == 0 else segment.dtype,
            "x".join(map(str, segment.shape)) or "1",
            format_size(segment.nbytes),
            str(segment.version),
            str(segment.attached),
        )
        for segment in segments
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _printable(name: str) -> str:
    # A name is any text of a client: a line feed would break the table, and a terminal obeys ESC.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def _use_token_file(path: str | None) -> None:
    # The core reads the file, and checks that no other user can. It would make a missing one, with
    # a secret that the other side does not have.
    if path is None:
        return
    if not os.path.lexists(path):
        raise NotFound(
            f"box: --token-file {path} does not exist; name the file that server and clients share,"
            f" or write one: (umask 077 && openssl rand -hex 32 > {shlex.quote(path)})"
        )
    os.environ["FARWRITE_TOKEN_FILE"] = os.path.abspath(path)
    os.environ.pop("FARWRITE_TOKEN", None)  # a flag overrides the environment


@contextlib.contextmanager
def _signals_end() -> Iterator[threading.Event]:
    """Within the block, SIGINT, SIGTERM and SIGHUP set the event and do not end the process."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read
