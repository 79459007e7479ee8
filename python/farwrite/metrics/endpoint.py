"""Serves the metrics of a process over HTTP, for Prometheus to scrape.

A daemon thread serves the requests and reads the devices' counters at each request. Devices with
the same address share one server, because a process has one ``/metrics``. Serving the first address
imports the server: `http.server` would take a tenth of the time of ``import farwrite``.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Protocol

from farwrite import _farwrite
from farwrite.arguments import shown, text
from farwrite.errors import AlreadyExists, Error, InvalidArgument, ResourceExhausted, Unavailable
from farwrite.lifetime.weak_objects import WeakObjects
from farwrite.options.device import Given
from farwrite.options.option import from_environment
from farwrite.options.table import find_option


class Source(Protocol):
    """An object that has metrics. The server holds a weak reference to it."""

    def metrics(self) -> str:
        """Return the metrics in the Prometheus text format."""


class _Endpoint:
    """One address and the sources that are served there. Guarded by `_lock`."""

    def __init__(self, host: str, port: int) -> None:
        from farwrite.metrics.server import MetricsServer

        self.sources: WeakObjects[Source] = WeakObjects()
        self._server = MetricsServer(host, port, self._text)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}/metrics"
        self._thread = threading.Thread(target=self._serve, name="farwrite-metrics", daemon=True)
        # Whether it runs, or may no longer: what the thread or `stop` says first, in one step.
        self._said: dict[str, bool] = {}

    def start(self) -> None:
        """Serve, in a thread of its own."""
        try:
            self._thread.start()
        except RuntimeError as error:
            if "new thread" not in str(error):  # of a signal handler
                raise
            raise ResourceExhausted(
                f"serve metrics at {self.url}: {error}; end other threads, or raise the limits"
                " (ulimit -u, ulimit -v)"
            ) from None

    def _serve(self) -> None:
        if self._said.setdefault("runs", True):
            self._server.serve_forever(0.1)

    def _text(self) -> str:
        return merged([source.metrics() for source in self.sources.alive()])

    def stop(self) -> None:
        # An interrupted start may leave a thread that is about to run: is_alive() denies it.
        if self._said.setdefault("runs", False):
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def abandon(self) -> None:
        """Close the socket in a forked child, which lacks the serving thread."""
        self._server.socket.close()


_lock = threading.RLock()
_endpoints: dict[tuple[str, int], _Endpoint] = {}


_ELSEWHERE = "name another address"
_MORE = "close what is not used, or raise the limit of open files (ulimit -n)"
_REFUSALS: dict[int, tuple[type[Error], str]] = {
    errno.EADDRINUSE: (AlreadyExists, _ELSEWHERE),
    errno.EMFILE: (ResourceExhausted, _MORE),
    errno.ENFILE: (ResourceExhausted, _MORE),
}


def serve(source: Source, address: str) -> str:
    """Serve `source` at `address` and return the URL.

    Serving ends when `source` is deleted, or with `stop_serving`.

    Raises
    ------
    AlreadyExists, InvalidArgument, ResourceExhausted, Unavailable
        See `farwrite.Device.serve_metrics`.
    """
    source.metrics()  # of a forked child's parent: raises Forked now, not at each scrape
    host, port = parse_address(address)
    with _lock:
        endpoint = _endpoints.get((host, port))
        if endpoint is None:
            try:
                endpoint = _Endpoint(host, port)
            except OSError as error:
                kind, remedy = _REFUSALS.get(error.errno or 0, (Unavailable, _ELSEWHERE))
                raise kind(f"serve metrics at {address}: {error.strerror}; {remedy}") from None
            except UnicodeError as error:  # a name that no host can have
                raise InvalidArgument(
                    f"serve metrics at {shown(address)}: {error}; {_ELSEWHERE}"
                ) from None
        try:
            if endpoint not in _endpoints.values():
                # With port 0 each process gets its own port.
                key = (host, port or endpoint._server.server_address[1])
                _endpoints[key] = endpoint
                endpoint.start()
                _farwrite.log_info(f"metrics are at {endpoint.url}")
            # Without close(), the last reference ends it; from a thread of its own, because it may
            # be dropped in the very thread that serves.
            weakref.finalize(source, _stop_unused_soon).atexit = False
            endpoint.sources.add(source)
        except BaseException:  # also that of a signal handler
            _stop_unused()
            raise
        return endpoint.url


def serve_given(source: Source, address: Given) -> None:
    """Serve at the address of an option.

    Child processes inherit the environment, and only one process can listen on a port. If the
    address comes from the environment, a port in use is therefore a warning instead of an error.
    """
    if not isinstance(address.value, str):
        raise address.error(
            f"{address.value!r} is not text; give host:port, for example '127.0.0.1:9464'"
        )
    try:
        serve(source, address.value)
    except (AlreadyExists, InvalidArgument, Unavailable) as error:
        if address.name != "metrics" and isinstance(error, AlreadyExists):
            _farwrite.log_warning(f"{address.name}: {error}")
            return
        raise type(error)(f"Device: {address.name}: {error}") from None


def serve_from_environment(source: Source) -> None:
    """Serve at the address in FARWRITE_METRICS, if it is set."""
    option = find_option("metrics")
    found, address = from_environment(option)
    if found:
        serve_given(source, Given(option.variable, address))


def stop_serving(source: Source) -> None:
    """Remove `source` from every address, and close the addresses that have no source left."""
    with _lock:
        for endpoint in _endpoints.values():
            endpoint.sources.discard(source)
        _stop_unused()


def _stop_unused() -> None:
    with _lock:
        for key, endpoint in list(_endpoints.items()):
            if not endpoint.sources.alive():
                endpoint.stop()  # before it is forgotten: an interrupted call leaves it to the next
                del _endpoints[key]


def _stop_unused_soon() -> None:
    if _endpoints:
        threading.Thread(target=_stop_unused, name="farwrite-metrics-end", daemon=True).start()


def _in_forked_child() -> None:
    global _lock
    _lock = threading.RLock()
    for endpoint in _endpoints.values():
        endpoint.abandon()
    _endpoints.clear()


os.register_at_fork(after_in_child=_in_forked_child)


def parse_address(address: str) -> tuple[str, int]:
    """Read ``host:port``, ``[::1]:port``, or a port of 127.0.0.1.

    Raises
    ------
    InvalidArgument
        If `address` is none of these.
    """
    host, _, port = text("serve metrics", "address", address).strip().rpartition(":")
    if not port.isdecimal() or len(port) > 5 or int(port) > 65535 or "\0" in host:
        raise InvalidArgument(
            f"serve metrics: {shown(address)} is not an address like 127.0.0.1:9464, with a port up"
            " to 65535; write it as host:port"
        )
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def merged(expositions: Iterable[str]) -> str:
    """Join the metrics of several sources, so that the samples of a family are adjacent."""
    headers: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for exposition in expositions:
        family = ""
        for line in exposition.splitlines():
            if line.startswith("# HELP "):
                family = line.split(" ", 3)[2]
                headers.setdefault(family, [])
                if len(headers[family]) < 2:
                    headers[family].append(line)
            elif line.startswith("# TYPE "):
                if len(headers[family]) < 2:
                    headers[family].append(line)
            elif line:
                samples.setdefault(family, []).append(line)
    lines = [line for name in headers for line in (*headers[name], *samples.get(name, ()))]
    return "".join(f"{line}\n" for line in lines)
