"""Checks of the options of a `Device`, before they reach the core."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Literal, SupportsIndex

from farwrite import _farwrite
from farwrite.errors import InvalidArgument

HugePages = Literal["off", "transparent", "explicit"]


def _count(name: str, value: SupportsIndex, low: int, high: int) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"Device: {name} {value!r} is not a whole number") from None
    if not low <= count <= high:
        raise InvalidArgument(f"Device: {name} {count} is outside of {low} to {high}")
    return count


def _bytes(name: str, value: SupportsIndex) -> int:
    return _count(f"{name} (bytes)", value, 1, 2**63 - 1)


def _seconds(name: str, value: float) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"Device: {name} {value!r} is not a number of seconds") from None
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InvalidArgument(f"Device: {name} {seconds} is not a length of time in seconds")
    return seconds


def _listen(listen: str | None, port: SupportsIndex | None) -> str:
    if port is None:
        endpoint = "127.0.0.1:0" if listen is None else listen
        if not isinstance(endpoint, str):
            raise InvalidArgument(f"Device: listen {listen!r} is not text like '127.0.0.1:7777'")
        return endpoint
    if listen is not None:
        raise InvalidArgument(
            f"Device: listen={listen!r} and port={port!r} both say where to listen; give one"
        )
    return f"127.0.0.1:{_count('port', port, 0, 65535)}"


def device_options(
    *,
    listen: str | None,
    port: SupportsIndex | None,
    fabrics: Sequence[str],
    pollers: SupportsIndex,
    lanes: SupportsIndex,
    spin: float,
    token: str | bytes | None,
    send_limit: SupportsIndex,
    send_limit_per_peer: SupportsIndex | None,
    receive_limit: SupportsIndex,
    receive_limit_per_peer: SupportsIndex | None,
    segment_bytes: SupportsIndex,
    receive_segment_bytes: SupportsIndex,
    huge_pages: HugePages,
    prefault: bool,
    numa_node: SupportsIndex | None,
    detection_time: float,
    handshake_timeout: float,
) -> _farwrite.DeviceOptions:
    """Turn the keywords of `Device` into the core's options; see there for their meaning."""
    options = _farwrite.DeviceOptions()
    options.set_listen(_listen(listen, port))
    if isinstance(fabrics, str):
        raise InvalidArgument(f"Device: fabrics {fabrics!r} is text; give a list: [{fabrics!r}]")
    if not fabrics:
        raise InvalidArgument("Device: fabrics is empty; name at least one, for example ['shm']")
    options.set_fabrics([str(name) for name in fabrics])
    options.pollers = _count("pollers", pollers, 1, 1024)
    options.lanes = _count("lanes", lanes, 1, 1024)
    options.set_spin(_seconds("spin", spin))
    if token is not None:
        if not isinstance(token, (str, bytes)):
            raise InvalidArgument(f"Device: token is {type(token).__name__}; give str or bytes")
        if not token:
            raise InvalidArgument("Device: token is empty; leave it out to do without one")
        options.set_token(token.encode() if isinstance(token, str) else token)
    options.send_limit = _bytes("send_limit", send_limit)
    options.send_limit_per_peer = (
        options.send_limit
        if send_limit_per_peer is None
        else _bytes("send_limit_per_peer", send_limit_per_peer)
    )
    options.receive_limit = _bytes("receive_limit", receive_limit)
    options.receive_limit_per_peer = (
        options.receive_limit
        if receive_limit_per_peer is None
        else _bytes("receive_limit_per_peer", receive_limit_per_peer)
    )
    options.segment_bytes = _bytes("segment_bytes", segment_bytes)
    options.receive_segment_bytes = _bytes("receive_segment_bytes", receive_segment_bytes)
    options.set_huge_pages(huge_pages)
    options.prefault = bool(prefault)
    options.numa_node = -1 if numa_node is None else _count("numa_node", numa_node, 0, 1023)
    options.set_detection_time(_seconds("detection_time", detection_time))
    options.set_handshake_timeout(_seconds("handshake_timeout", handshake_timeout))
    return options
