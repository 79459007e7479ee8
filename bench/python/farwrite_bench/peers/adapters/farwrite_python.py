"""Farwrite from Python: writes with a notification."""

from __future__ import annotations

from typing import Any

from farwrite import Device
from farwrite.info import version
from farwrite_bench.p2p.pair import POLLING_SPIN_SECONDS
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Buffer, Bytes
from farwrite_bench.peers.peer import FARWRITE, PYTHON, Peer
from farwrite_bench.peers.sides import in_two_processes

CONNECT_SECONDS = 30.0
INBOX = "inbox"


class _FarwriteEnd(End):
    """A device, and a channel to the other one."""

    settings = f"Farwrite {version()}, Channel.write(notify=...) over shm; the receiver polls"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._device = Device(fabrics=["shm"], spin=POLLING_SPIN_SECONDS)

    @property
    def address(self) -> Any:
        return self._device.endpoint

    def connect(self, other: Any) -> None:
        """Open the channel, and the memory in which the other side lets payloads land."""
        if self.setup.receives:
            channel = self._device.accept(CONNECT_SECONDS)
        else:
            channel = self._device.connect(other, CONNECT_SECONDS)
        inbox = channel.publish(INBOX, channel.allocate(self.setup.pools.into.bytes))
        self._landed: Bytes = inbox.array
        self._landed.fill(0)  # all pages exist, as in the other libraries' pools
        self._target = channel.lookup(INBOX, CONNECT_SECONDS)
        self._channel = channel
        self._write, self._notify = channel.write, channel.notify
        self._wait = channel.wait_notification

    def send(self, offset: int) -> None:
        payload = self.out[offset : offset + self.loop.size]
        self._write(payload, self._target, next(self.targets), notify=0)

    def receive(self) -> Buffer:
        self._wait()
        at = next(self.arrivals)
        return self._landed[at : at + self.loop.size]

    def acknowledge(self) -> None:
        self._notify(0)

    def await_acknowledgement(self) -> None:
        self._wait()

    def copies(self) -> int | None:
        return self._channel.stats().copies

    def close(self) -> None:
        self._device.close()


PEER = Peer(FARWRITE[PYTHON], "Farwrite", PYTHON, in_two_processes(_FarwriteEnd), memory=1.0)
