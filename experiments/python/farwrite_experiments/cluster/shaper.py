"""A switch of our own, for links that the kernel cannot shape: it has a rate and a delay.

A `Task`. Its first message is a `Shape`, and it
answers when every machine has its end of a link. It passes packets on until the parent closes the
pipe. Each machine's end is a TUN device, with packets of up to 64 KiB, so that some gigabits a
second are possible. It takes a processor for that, which counts among those that are busy.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import itertools
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

from farwrite_experiments.cluster.link import Link
from farwrite_experiments.cluster.namespace import enter, in_thread

DEVICE = "eth0"
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4 = 0x01, 0x02
_HEADER = 10
"""Bytes that say how a large packet was made, in front of each packet."""
_DESTINATION = slice(_HEADER + 16, _HEADER + 20)
_PACKET = 1 << 17
_AT_ONCE = 16
QUEUE_SECONDS = 50e-3
"""The most that waits in front of a link; packets beyond it are dropped, as a switch does."""


@dataclass(frozen=True)
class Shape:
    """The first message: the namespaces and the addresses of all machines, and their link."""

    machines: tuple[tuple[str, str], ...]
    link: Link


@dataclass
class Port:
    """A machine's end of its link."""

    descriptor: int
    sent: float = 0.0
    """When the link towards the switch has passed on all that the machine sent."""
    received: float = 0.0
    """The same for what it receives."""


class Switch:
    """Passes packets from port to port, each when it is due."""

    def __init__(self, ports: dict[bytes, Port], link: Link) -> None:
        self._ports, self._link = ports, link
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, Port, memoryview]] = []

    def take(self, port: Port, packet: memoryview, now: float) -> None:
        """Take a packet that a machine has sent."""
        to = self._ports.get(bytes(packet[_DESTINATION]))
        if to is None:
            return  # for no machine here, such as a multicast
        lasts = (len(packet) - _HEADER) / self._link.bytes_s
        port.sent = max(port.sent, now) + lasts
        to.received = max(to.received, port.sent - lasts) + lasts
        if to.received - now > QUEUE_SECONDS + lasts:
            to.received -= lasts
            return
        due = to.received + self._link.delay
        heapq.heappush(self._waiting, (due, next(self._numbers), to, packet))

    def pass_on(self, now: float) -> float | None:
        """Pass on what is due; return the seconds until the next packet, if there is one."""
        while self._waiting and self._waiting[0][0] <= now:
            _, _, to, packet = heapq.heappop(self._waiting)
            with contextlib.suppress(OSError):  # a machine that is down gets nothing
                os.write(to.descriptor, packet)
        return self._waiting[0][0] - now if self._waiting else None


def main(control: Connection) -> None:
    """Pass packets on until the parent closes the control pipe."""
    shape: Shape = control.recv()
    ports = {socket.inet_aton(address): Port(_open(path)) for path, address in shape.machines}
    control.send("ready")
    switch = Switch(ports, shape.link)
    by_descriptor = {port.descriptor: port for port in ports.values()}
    waiting = select.epoll()
    for descriptor in (*by_descriptor, control.fileno()):
        waiting.register(descriptor, select.EPOLLIN)
    left: float | None = None
    while True:
        for descriptor, _ in waiting.poll(left):
            port = by_descriptor.get(descriptor)
            if port is None:
                control.recv()  # the parent closed the pipe: EOFError ends this process
                continue
            for packet in _packets(descriptor):
                switch.take(port, packet, time.monotonic())
        left = switch.pass_on(time.monotonic())


def _packets(descriptor: int) -> Iterator[memoryview]:
    """Read what a machine has sent, but not so much that due packets would wait."""
    with contextlib.suppress(BlockingIOError):
        for _ in range(_AT_ONCE):
            yield memoryview(os.read(descriptor, _PACKET))


def _open(path: str) -> int:
    """Make a machine's device inside its namespace."""

    def inside() -> int:
        enter(path)
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), flags))
        fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4)
        return descriptor

    return in_thread(inside)
