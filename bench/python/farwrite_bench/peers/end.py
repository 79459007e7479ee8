"""One end of a connection of a library with a Python API. An adapter fills in a few methods."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from farwrite_bench.peers.loop import Buffer, Bytes, Checker, Loop
from farwrite_bench.peers.pool import Pools

ACKNOWLEDGEMENT_BYTES = 8


@dataclass(frozen=True)
class Setup:
    """What a side gets when it starts."""

    receives: bool
    pools: Pools
    folder: str
    """An empty folder for sockets and files, which both sides share."""


class End:
    """One end. Both sides have one, and both directions are open.

    An adapter has `send` and `receive`, and derives from `PostingEnd` or `CallingEnd` if its
    library moves bytes in another way.
    """

    settings = ""
    """Version and settings of the library, for people."""
    loop: Loop
    checker: Checker
    """At the receiver, what gets the payloads of `loop`."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @cached_property
    def out(self) -> Bytes:
        """The memory of payloads to send, mapped."""
        return self.setup.pools.out.map()

    @cached_property
    def into(self) -> Bytes:
        """The memory in which payloads may land, mapped."""
        return self.setup.pools.into.map()

    @property
    def address(self) -> Any:
        """What the other side needs to connect; anything that can be pickled."""
        return None

    def connect(self, other: Any) -> None:
        """Connect to the side with this address, which connects at the same time."""

    def start(self, loop: Loop) -> None:
        """Get ready for a loop."""
        self.loop = loop
        self.targets = loop.offsets()
        """Where the next payloads land at the other side."""
        self.arrivals = loop.offsets()
        """Where the next ones land here, in `into`."""
        if self.setup.receives:
            self.checker = Checker(loop, self.out)
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
        checker = self.checker
        echoes = self.loop.echoes
        for _ in range(self.loop.transfers):
            echo = checker.prepare()
            checker.take(self.receive())
            self.release()
            if echoes:
                self.send(echo)
            else:
                self.acknowledge()

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

    def post_send(self, payload: Bytes, tag: int) -> Any:
        """Start to send, and return what `wait` takes."""
        raise NotImplementedError

    def post_receive(self, payload: Bytes, tag: int) -> Any:
        """Start to receive, and return what `wait` takes."""
        raise NotImplementedError

    def wait(self, request: Any) -> None:
        """Wait until a posted operation has ended."""
        raise NotImplementedError

    def begin(self) -> None:
        """Post the receiver's first receives."""
        self._left = self.loop.transfers
        self._receives: deque[tuple[object, Bytes]] = deque()
        self._sends: deque[object] = deque()
        self._word = self.out[:ACKNOWLEDGEMENT_BYTES].copy()
        if self.setup.receives:
            for _ in range(min(self.loop.window, self._left)):
                self._expect()

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
        if self.setup.receives and self._left > 0:
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
        at = next(self.arrivals)
        payload = self.into[at : at + self.loop.size]
        self._receives.append((self.post_receive(payload, self.DATA), payload))
        self._left -= 1


class CallingEnd(End):
    """An end of a library whose sender calls the receiver's program with each payload.

    An adapter has `call` and `result` at the sender, and lets the library call `take` at the
    receiver.
    """

    def call(self, offset: int) -> Any:
        """Start a call with the payload at `offset` of `out`, and return what `result` takes."""
        raise NotImplementedError

    def result(self, call: Any) -> Buffer:
        """Wait for the answer of a call."""
        raise NotImplementedError

    def begin(self) -> None:
        """Count the calls of the loop down."""
        self._left = self.loop.transfers
        self._done = threading.Event()

    def take(self, payload: Buffer) -> int | None:
        """Handle a call, in a thread of the library; return the offset of the echo in `out`."""
        # Inside its time: nothing calls this side between two calls.
        echo = self.checker.prepare()
        self.checker.take(payload)
        self._left -= 1
        if self._left == 0:
            self._done.set()
        return echo if self.loop.echoes else None

    def serve(self) -> None:
        """Wait until all calls were handled."""
        self._done.wait()

    def exchange(self, offset: int) -> Buffer:
        """Call, and return the answer."""
        return self.result(self.call(offset))

    def deliver(self, offset: int) -> None:
        """Call, and wait for the answer."""
        self.exchange(offset)

    def stream(self, offsets: Iterable[int]) -> None:
        """Keep a window of calls under way."""
        calls: deque[Any] = deque()
        for offset in offsets:
            if len(calls) == self.loop.window:
                self.result(calls.popleft())
            calls.append(self.call(offset))
        for call in calls:
            self.result(call)
