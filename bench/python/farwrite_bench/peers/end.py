"""One end of a connection of a library with a Python API. An adapter fills in a few methods."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from farwrite_bench.peers.loop import ECHO, Loop
from farwrite_bench.peers.pool import Area, Buffer, Bytes

ACKNOWLEDGEMENT_BYTES = 8


@dataclass(frozen=True)
class Setup:
    """What a side gets when it starts."""

    receives: bool
    out: Area
    """What it sends from: the source pool, or the echoes of the receiver."""
    into: Area
    """What it receives into: the landing pool, or the echoes at the sender."""
    folder: str
    """An empty folder for sockets and files, which both sides share."""


@dataclass(frozen=True)
class Start:
    """The first order to a side."""

    end: type[End]
    """The class of the side's end."""
    setup: Setup


class Taker(Protocol):
    """The receiver's check of what arrives."""

    def prepare(self) -> int:
        """Write the next echo, outside of its time; return its offset in `out`."""

    def take(self, payload: Buffer) -> None:
        """Read every byte of a payload, and check it."""


class End:
    """One end. Both sides have one, and both directions are open.

    An adapter has `send` and `receive`. A library that calls the program with each message, instead
    of handing messages out, replaces `serve` at the receiver, and `exchange`, `deliver` and
    `stream` at the sender.
    """

    settings = ""
    """Version and settings of the library, for people."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.loop = Loop(ECHO, 8, 0, 1, 0, setup.into.bytes)
        self.taker: Taker | None = None

    @cached_property
    def out(self) -> Bytes:
        """The memory of payloads to send, mapped."""
        return self.setup.out.map()

    @cached_property
    def into(self) -> Bytes:
        """The memory in which payloads may land, mapped."""
        return self.setup.into.map()

    @property
    def address(self) -> object:
        """What the other side needs to connect; anything that can be pickled."""
        return None

    def connect(self, other: object) -> None:
        """Connect to the side with this address, which connects at the same time."""

    def start(self, loop: Loop, taker: Taker | None = None) -> None:
        """Get ready for a loop. At the receiver, `taker` gets what arrives."""
        self.loop, self.taker = loop, taker
        self.begin()

    def begin(self) -> None:
        """Prepare `loop`, outside of its time. The sender starts when the receiver is ready."""

    def send(self, offset: int) -> None:
        """Send the loop's size from `offset` of `out`.

        The payload stays as it is until the other side has answered or acknowledged it.
        """
        raise NotImplementedError

    def receive(self) -> Buffer:
        """Wait for the loop's size; the bytes stay until `release`."""
        raise NotImplementedError

    def release(self) -> None:
        """Give the bytes of the last `receive` back."""

    def acknowledge(self) -> None:
        """Let the sender know that a payload was read."""
        raise NotImplementedError

    def await_acknowledgement(self) -> None:
        """Wait for the acknowledgement of the oldest payload that has none."""
        raise NotImplementedError

    def exchange(self, offset: int) -> Buffer:
        """Send a payload, and wait for as many bytes in return."""
        self.send(offset)
        return self.receive()

    def deliver(self, offset: int) -> None:
        """Send a payload, and wait until it was read."""
        self.send(offset)
        self.await_acknowledgement()

    def stream(self, offsets: Iterable[int]) -> None:
        """Send payloads, up to the loop's window at a time, and wait until all were read."""
        under_way = 0
        for offset in offsets:
            if under_way == self.loop.window:
                self.await_acknowledgement()
                under_way -= 1
            self.send(offset)
            under_way += 1
        for _ in range(under_way):
            self.await_acknowledgement()

    def serve(self) -> None:
        """Receive every transfer of the loop, and answer each."""
        taker = self.taker
        assert taker is not None
        echoes = self.loop.kind == ECHO
        for _ in range(self.loop.transfers):
            echo = taker.prepare()
            taker.take(self.receive())
            self.release()
            if echoes:
                self.send(echo)
            else:
                self.acknowledge()

    def place(self, transfer: int) -> int:
        """Return the offset at which a transfer lands in `into`."""
        return transfer % self.loop.places * self.loop.stride

    def copies(self) -> int | None:
        """Return the library's own count of passes over payloads so far, where it has one."""
        return None

    def helpers_cpu_seconds(self) -> float:
        """Return the processor time of the library's other processes so far."""
        return 0.0

    def close(self) -> None:
        """Close the connection. The other side may have closed before."""


class PostingEnd(End):
    """An end of a library that receives into posted buffers, a window of them in advance.

    An adapter has `post_send`, `post_receive` and `wait` instead of `send` and `receive`.
    """

    DATA, ACKNOWLEDGEMENT = 0, 1

    def begin(self) -> None:
        """Post the receiver's first receives."""
        loop = self.loop
        self._posted = 0
        self._receives: deque[tuple[object, Bytes]] = deque()
        self._sends: deque[object] = deque()
        self._word = self.out[:ACKNOWLEDGEMENT_BYTES].copy()
        if self.setup.receives:
            for _ in range(min(loop.window, loop.transfers)):
                self._expect()

    def post_send(self, payload: Bytes, tag: int) -> Any:
        """Start to send, and return what `wait` takes."""
        raise NotImplementedError

    def post_receive(self, payload: Bytes, tag: int) -> Any:
        """Start to receive, and return what `wait` takes."""
        raise NotImplementedError

    def wait(self, request: Any) -> None:
        """Wait until a posted operation has ended."""
        raise NotImplementedError

    def send(self, offset: int) -> None:
        """Post the send. It is waited for when its payload was read."""
        self._sends.append(self.post_send(self.out[offset : offset + self.loop.size], self.DATA))

    def receive(self) -> Buffer:
        """Wait for the oldest posted receive."""
        if not self._receives:
            self._expect()
        request, payload = self._receives.popleft()
        self.wait(request)
        return payload

    def release(self) -> None:
        """Let the receiver post a receive in the place of the one that has ended."""
        if self.setup.receives and self._posted < self.loop.transfers:
            self._expect()

    def exchange(self, offset: int) -> Buffer:
        """Post the receive of the echo first."""
        self._expect()
        answer = super().exchange(offset)
        self.wait(self._sends.popleft())
        return answer

    def acknowledge(self) -> None:
        """Send a word."""
        self.wait(self.post_send(self._word, self.ACKNOWLEDGEMENT))

    def await_acknowledgement(self) -> None:
        """Receive a word; the oldest send has then ended."""
        self.wait(self.post_receive(self._word, self.ACKNOWLEDGEMENT))
        self.wait(self._sends.popleft())

    def serve(self) -> None:
        """Receive every transfer, and wait for the echoes that were sent."""
        super().serve()
        while self._sends:
            self.wait(self._sends.popleft())

    def _expect(self) -> None:
        at = self.place(self._posted)
        payload = self.into[at : at + self.loop.size]
        self._receives.append((self.post_receive(payload, self.DATA), payload))
        self._posted += 1
