"""What ``farwrite box`` does: serve a parameter box, and list its segments."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator

from farwrite.box.client import connect
from farwrite.box.segment import SegmentInfo
from farwrite.box.server import Server, serve
from farwrite.errors import InvalidArgument, NotFound, Unauthenticated
from farwrite.units import format_size


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    if (arguments.restore or arguments.snapshot_every) and arguments.snapshot is None:
        raise InvalidArgument("box serve: --restore and --snapshot-every need --snapshot DIR")
    _use_token_file(arguments.token_file)
    with _signals_end() as wait_for_signal, _server(arguments) as server:
        address = reachable(server.endpoint)
        try:
            print(address, flush=True)
        except OSError as error:
            print(
                f"farwrite box serve: the address {address} could not be printed: {error}",
                file=sys.stderr,
                flush=True,
            )
        if address != server.endpoint:
            print(
                f"farwrite box serve: the server listens on every address of this host"
                f" ({server.endpoint}); if clients do not reach {address}, give them another name"
                " or address of the host",
                file=sys.stderr,
                flush=True,
            )
        wait_for_signal()
        server.close(snapshot=arguments.snapshot is not None)
    return 0


def reachable(endpoint: str) -> str:
    """Return an address at which clients can connect to a server that listens at `endpoint`.

    It is `endpoint`, unless that means every address of the host, as 0.0.0.0 does. Then it has the
    address from which this host reaches others, or the host's name if it reaches none.
    """
    host, _, port = endpoint.rpartition(":")
    try:
        family, *_, place = socket.getaddrinfo(host.strip("[]"), int(port))[0]
    except (OSError, ValueError):
        return endpoint
    if not ipaddress.ip_address(str(place[0])).is_unspecified:
        return endpoint
    try:
        # Connecting a datagram socket sends nothing. No host has this address of documentation.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1" if family == socket.AF_INET else "2001:db8::1", 9))
            own = str(probe.getsockname()[0])
    except OSError:
        own = socket.gethostname()
    return f"[{own}]:{port}" if ":" in own else f"{own}:{port}"


def _server(arguments: argparse.Namespace) -> Server:
    given = {} if arguments.metrics is None else {"metrics": arguments.metrics}
    with _flag_named():
        return serve(
            listen=arguments.listen,
            memory=arguments.memory,
            pool=arguments.pool,
            threads=arguments.threads,
            snapshot=arguments.snapshot,
            snapshot_every=arguments.snapshot_every,
            restore=arguments.restore,
            **given,
        )


def run_list(arguments: argparse.Namespace) -> int:
    """Print the table."""
    _use_token_file(arguments.token_file)
    with _flag_named(), connect(arguments.endpoint, timeout=5.0) as client:
        print("\n".join(table(client.list())))
    return 0


@contextlib.contextmanager
def _flag_named() -> Iterator[None]:
    """Add the flag of the token to an error about it, whose remedies are a program's."""
    try:
        yield
    except Unauthenticated as error:
        raise Unauthenticated(f"{error}; here, --token-file names the file") from None


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
    if not path:
        raise InvalidArgument("box: --token-file is an empty path; name the file, or leave it out")
    if not os.path.lexists(path):
        raise NotFound(
            f"box: --token-file {path} does not exist; name the file that server and clients share,"
            f" or write one: (umask 077 && openssl rand -hex 32 > {shlex.quote(path)})"
        )
    os.environ["FARWRITE_TOKEN_FILE"] = os.path.abspath(path)
    os.environ.pop("FARWRITE_TOKEN", None)  # a flag overrides the environment


@contextlib.contextmanager
def _signals_end() -> Iterator[Callable[[], None]]:
    """Give a function that waits for a signal: SIGINT, SIGTERM or SIGHUP.

    In the block these signals do not end the process.

    C code writes the number of a signal to a pipe as soon as it comes. A handler in Python would
    run too late if the signal comes just before the wait, and too early for the lock of an event
    if it comes just as the wait begins.
    """
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    with contextlib.ExitStack() as undo:
        came, write = os.pipe()
        undo.callback(os.close, came)
        undo.callback(os.close, write)
        os.set_blocking(write, False)
        # Before the handlers, which drop a signal: until then it ends the process as ever.
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write, warn_on_full_buffer=False))
        for number in numbers:
            before = signal.signal(number, lambda *_: None)
            undo.callback(signal.signal, number, before or signal.SIG_DFL)

        def wait() -> None:
            while os.read(came, 1)[0] not in numbers:
                pass

        yield wait
