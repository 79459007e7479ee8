"""Farwrite from Python: writes with a notification."""

from __future__ import annotations

from farwrite import Channel, Device
from farwrite.info import version
from farwrite_bench.p2p.pair import POLLING_SPIN_SECONDS
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.peer import FARWRITE, PYTHON, Peer
from farwrite_bench.peers.pool import Buffer, Bytes
from farwrite_bench.peers.site import in_two_processes

CONNECT_SECONDS = 30.0
INBOX = "inbox"


class FarwriteEnd(End):
    """A device, and a channel to the other one."""

    settings = f"Farwrite {version()}, Channel.write(notify=...) over shm; the receiver polls"

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._device = Device(
            fabrics=["shm"],
            spin=POLLING_SPIN_SECONDS,
        )
        self._channel: Channel | None = None

    @property
    def address(self) -> object:
        """The device's endpoint."""
        return self._device.endpoint

    def connect(self, other: object) -> None:
        """Open the channel, and the memory in which the other side lets payloads land."""
        if self.setup.receives:
            channel = self._device.accept(CONNECT_SECONDS)
        else:
            channel = self._device.connect(str(other), CONNECT_SECONDS)
        self._channel = channel
        inbox = channel.publish(INBOX, channel.allocate(self.setup.into.bytes))
        self._landed: Bytes = inbox.array
        self._landed.fill(0)  # all pages exist, as in the other libraries' pools
        self._target = channel.lookup(INBOX, CONNECT_SECONDS)
        self._write, self._notify = channel.write, channel.notify
        self._wait = channel.wait_notification

    def begin(self) -> None:
        """Begin at the first place."""
        self._sent = self._taken = 0

    def send(self, offset: int) -> None:
        """Write into the next place, and notify."""
        payload = self.out[offset : offset + self.loop.size]
        self._write(payload, self._target, self.place(self._sent), notify=0)
        self._sent += 1

    def receive(self) -> Buffer:
        """Wait for the notification of the next place."""
        self._wait()
        at = self.place(self._taken)
        self._taken += 1
        return self._landed[at : at + self.loop.size]

    def acknowledge(self) -> None:
        """Raise a notification without bytes."""
        self._notify(0)

    def await_acknowledgement(self) -> None:
        """Wait for such a notification."""
        self._wait()

    def copies(self) -> int | None:
        """Return the channel's counter."""
        assert self._channel is not None
        return self._channel.stats().copies

    def close(self) -> None:
        """Close the device, with its channel."""
        self._device.close()


PEER = Peer(FARWRITE[PYTHON], "Farwrite", PYTHON, in_two_processes(FarwriteEnd), memory=1.0)
