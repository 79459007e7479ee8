"""The command's side of a library with a Python API: orders to the receiver and to the sender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from farwrite.errors import Internal
from farwrite_bench.cluster.control import START_SECONDS, Control, receive_all
from farwrite_bench.peers.loop import (
    STREAM,
    Connect,
    Loop,
    Opened,
    Ran,
    Ready,
    latency_kind,
    places,
)
from farwrite_bench.peers.peer import Latency, Stream

Answer = TypeVar("Answer")
LOOP_SECONDS = 90.0
"""The longest that a loop may take, of which the slowest library takes a few seconds."""


class TwoSides:
    """A `Running` peer whose ends are in two processes, or in one process and its library's."""

    variant = None

    def __init__(
        self,
        receiver: Control,
        sender: Control,
        settings: str,
        pool_bytes: int,
        window: int,
    ) -> None:
        self._receiver, self._sender = receiver, sender
        self._pool_bytes, self._window = pool_bytes, window
        self._seed = 0
        self.settings = settings

    @classmethod
    def connect(
        cls,
        receiver: Control,
        sender: Control,
        opened: Sequence[Opened],
        pool_bytes: int,
        window: int,
    ) -> TwoSides:
        """Connect each end, which has opened, with the other.

        Parameters
        ----------
        opened : sequence of Opened
            The first answers of the receiver and of the sender.
        """
        both = (receiver, sender)
        for control, other in zip(both, reversed(opened), strict=True):
            control.send(Connect(other.address))
        for answer in receive_all(both, START_SECONDS):
            expect(Ready, answer)
        settings = next((each.settings for each in opened if each.settings), "")
        return cls(receiver, sender, settings, pool_bytes, window)

    def prepare(self, size: int) -> None:
        """Nothing depends on the size."""

    def latency(self, size: int, transfers: int) -> Latency:
        """Make transfers one at a time."""
        receiver, sender = self._run(latency_kind(size), size, transfers, 1)
        samples = sender.samples_us or [
            (ended - began) / 1e3
            for began, ended in zip(sender.moments, receiver.moments, strict=True)
        ]
        return Latency(samples, receiver.bad + sender.bad)

    def stream(self, size: int, transfers: int) -> Stream:
        """Make transfers, the window at a time."""
        window = min(self._window, places(size, self._pool_bytes))
        receiver, sender = self._run(STREAM, size, transfers, window)
        copies = None
        if receiver.copies is not None and sender.copies is not None:
            copies = (receiver.copies + sender.copies) / transfers
        return Stream(
            transfers,
            sender.seconds,
            receiver.cpu_seconds + sender.cpu_seconds,
            receiver.bad + sender.bad,
            copies,
        )

    def _run(self, kind: str, size: int, transfers: int, window: int) -> tuple[Ran, Ran]:
        self._seed += 1
        loop = Loop(kind, size, transfers, window, self._seed, self._pool_bytes)
        self._receiver.send(loop)
        expect(Ready, self._receiver.receive(LOOP_SECONDS))
        self._sender.send(loop)
        ran = receive_all((self._receiver, self._sender), LOOP_SECONDS)
        return expect(Ran, ran[0]), expect(Ran, ran[1])


def expect(kind: type[Answer], answer: object) -> Answer:
    """Return the answer of a side, which must be of this kind."""
    if not isinstance(answer, kind):
        raise Internal(f"bench peers: a side answered {answer!r}; report this")
    return answer
