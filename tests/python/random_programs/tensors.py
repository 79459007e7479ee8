"""Named edges: what arrives is a prefix of what was sent, in order and bit by bit.

An iteration that ends silently had everything. Arrays that a receiver keeps stay what they were.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import farwrite as fw
from random_programs import tensor_calls as calls
from random_programs.actors import PATIENCE, SHORT, Here, There, expect, until
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

MOST_SENT = 12


@dataclass
class Edge:
    """An edge and what is sent and not taken."""

    name: str
    peer: Pair
    to_peer: bool
    fixed: tuple[str, tuple[int, ...]] | None
    waiting: list[int] = field(default_factory=list)
    doubtful: bool = False
    """Whether a reset may still drop the first of what waits."""
    over: bool = False

    @property
    def sender(self) -> Any:
        return self.peer.near if self.to_peer else self.peer.there

    @property
    def receiver(self) -> Any:
        return self.peer.there if self.to_peer else self.peer.near

    def took(self, digests: list[calls.Digest]) -> None:
        """Check that these are the next ones."""
        for found in digests:
            expected = [calls.digest(calls.made(number, self.fixed)) for number in self.waiting]
            assert expected, f"{self.name}: {found} arrived, and nothing was sent"
            at = expected.index(found) if self.doubtful and found in expected else 0
            assert found == expected[at], (
                f"{self.name}: {found} arrived, not {expected[at]} of {self.waiting[at]}"
            )
            del self.waiting[: at + 1]
            self.doubtful = False


@dataclass
class Pair:
    """Another process, and this process's side of the channel to it."""

    there: There
    near: Here
    gone: bool = False
    """Whether the channel is over."""


class World(AnyWorld):
    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.device = stack.enter_context(
            fw.Device(fabrics=[fabric], segment_bytes="8M", receive_segment_bytes="8M")
        )
        self.pairs: list[Pair] = []
        self.edges: list[Edge] = []
        self.counted = 0
        for _ in range(draw.choice([1, 1, 2, 3])):
            self._begin()

    def _begin(self) -> None:
        there = There(self.device, self.stack)
        near = Here(self.device, there.here)
        self.stack.callback(near.kept.clear)
        self.pairs.append(Pair(there, near))

    def _edge(self, draw: random.Random, *states: str) -> Edge:
        """Choose an edge that is not over, whose peer runs."""
        return choose(draw, (edge for edge in self._open() if edge.peer.there.runs))

    def _open(self) -> Iterator[Edge]:
        return (edge for edge in self.edges if not edge.over and not edge.peer.gone)

    @step(6)
    def open(self, draw: random.Random) -> None:
        pair = choose(draw, (pair for pair in self.pairs if pair.there.runs and not pair.gone))
        need(sum(edge.peer is pair for edge in self._open()) < 4)
        kind = draw.choice(["static", "bounded", "dynamic"])
        fixed, options = None, {"slots": draw.choice([1, 2, 4]), "copy": draw.random() < 0.3}
        if kind != "dynamic":
            fixed = draw.choice(calls.DTYPES), draw.choice(calls.SHAPES)
        if kind == "bounded":
            options |= {"dtype": fixed[0], "max_bytes": calls.made(0, fixed).nbytes}
        self.counted += 1
        edge = Edge(f"edge {self.counted}", pair, draw.random() < 0.5, fixed)
        edge.receiver.run(calls.open_receiver, edge.name, fixed, options)
        edge.sender.run(calls.open_sender, edge.name)
        self.edges.append(edge)

    def _numbers(self, draw: random.Random, most: int) -> list[int]:
        return [draw.randrange(1 << 30) for _ in range(draw.randint(1, most))]

    @step(12)
    def send(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        need(len(edge.waiting) < MOST_SENT)
        numbers = self._numbers(draw, 4)
        expect(edge.sender.run(calls.send, edge.name, edge.fixed, numbers, draw.random() < 0.3), "",
               of="send")  # fmt: skip
        edge.waiting += numbers

    @step(10)
    def take(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        need(edge.waiting)
        count = draw.randint(1, len(edge.waiting))
        if edge.doubtful:
            count, limit = 1, SHORT
        else:
            limit = PATIENCE
        arguments = draw.choice(calls.WAYS), count, limit, draw.choice([0, 1, 2])
        digests, ended = edge.receiver.run(calls.take, edge.name, *arguments)
        allowed = ("", "DeadlineExceeded") if edge.doubtful else ("",)
        edge.took(digests)
        expect(ended, *allowed, of=f"{arguments} of {edge.name}")

    @step()
    def take_nothing(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        need(not edge.waiting)
        digests, ended = edge.receiver.run(
            calls.take, edge.name, draw.choice(calls.WAYS), 1, SHORT, 0
        )
        assert not digests, f"{edge.name}: {digests} arrived, and nothing was sent"
        expect(ended, "DeadlineExceeded", of="a receive of nothing")

    @step(4)
    def look_at_kept(self, draw: random.Random) -> None:
        for pair in self.pairs:
            for actor in (pair.near, pair.there):
                if actor.runs:
                    wrong = actor.run(calls.changed)
                    assert not wrong, f"arrays that are kept have changed: {wrong}"

    @step()
    def drop(self, draw: random.Random) -> None:
        edge = choose(draw, self.edges)
        need(edge.receiver.runs)
        edge.receiver.run(calls.drop, edge.name, draw.randrange(2))

    @step(3)
    def end(self, draw: random.Random) -> None:
        """Close the sender while the receiver iterates: it gets everything, then the end."""
        edge = self._edge(draw)
        in_loop = draw.random() < 0.3
        # Sent while the receiver looks.
        numbers = self._numbers(draw, 30) if draw.random() < 0.3 else []
        if edge.to_peer:
            edge.peer.there.start(calls.iterate, edge.name, in_loop)
            sent = edge.sender.run(calls.send, edge.name, edge.fixed, numbers, False)
            closed = edge.sender.run(calls.call, edge.name, "close", PATIENCE)
            digests, ended = edge.peer.there.result()
        else:
            edge.peer.there.start(calls.send_and_close, edge.name, edge.fixed, numbers)
            digests, ended = edge.receiver.run(calls.iterate, edge.name, in_loop)
            sent, closed = edge.peer.there.result()
        expect(sent, "", of="send during an iteration")
        edge.waiting += numbers
        edge.took(digests)
        expect(ended, "ends", of="an iteration whose sender closes")
        expect(closed, "", of="the sender's close, everything was taken")
        assert edge.doubtful or not edge.waiting, f"the iteration lacks {len(edge.waiting)} arrays"
        self._close(edge)

    def _close(self, edge: Edge) -> None:
        edge.over = True
        expect(
            edge.receiver.run(calls.call, edge.name, "close", PATIENCE),
            "",
            of="the receiver's close",
        )

    @step(1)
    def abandon(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        expect(edge.sender.run(calls.call, edge.name, "abandon"), "", of="abandon")
        self._arrives_at_most(edge, "Unavailable")
        expect(edge.sender.run(calls.send, edge.name, edge.fixed, [1], False),
               "Cancelled", "FailedPrecondition", of="send after abandon")  # fmt: skip
        self._close(edge)

    @step(1)
    def reset(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        expect(edge.receiver.run(calls.call, edge.name, "reset"), "", of="reset")
        edge.waiting.clear()
        edge.doubtful = True

    @step(1)
    def close_receiver(self, draw: random.Random) -> None:
        edge = self._edge(draw)
        self._close(edge)
        _, ended = edge.receiver.run(calls.take, edge.name, "receive", 1, SHORT, 0)
        expect(ended, "Cancelled", "FailedPrecondition", of="receive after close")
        self._sends_end(edge, "Unavailable")

    def _sends_end(self, edge: Edge, *errors: str) -> None:
        """Sends are refused once the sender's side knows of the end."""
        give_up = time.monotonic() + PATIENCE
        while not (sent := edge.sender.run(calls.send, edge.name, edge.fixed, [1], False)):
            assert time.monotonic() < give_up, "send goes on after the receiver has closed"
        expect(sent, *errors, of="send after the end")

    def _arrives_at_most(self, edge: Edge, error: str) -> None:
        """What comes is a prefix of what waits, and then the error, now and again."""
        digests, ended = edge.receiver.run(calls.take, edge.name, "receive", 1 << 30, PATIENCE, 2)
        edge.took(digests)
        expect(ended, error, of=f"the end of {edge.name}")
        for way in calls.WAYS:
            digests, ended = edge.receiver.run(calls.take, edge.name, way, 1, PATIENCE, 0)
            assert not digests, f"{edge.name}: {digests} came after {error}"
            expect(ended, error, of=f"{way} after {error}")

    # --- Faults.

    def _died(self, pair: Pair) -> None:
        pair.gone = True
        state = fw.PeerState.DEAD
        until(lambda: pair.near.channel.peer_state is state, "the peer counts as dead")
        for edge in self.edges:
            if edge.peer is not pair or edge.over:
                continue
            edge.over = True
            if edge.to_peer:
                expect(edge.sender.run(calls.send, edge.name, edge.fixed, [1], False),
                       "PeerDead", of="send to the dead")  # fmt: skip
                closes = ("", "PeerDead") if not edge.waiting else ("PeerDead",)
                expect(
                    edge.sender.run(calls.call, edge.name, "close", PATIENCE),
                    *closes,
                    of=f"close of a sender to the dead, {len(edge.waiting)} not taken",
                )
            else:
                self._arrives_at_most(edge, "PeerDead")
                self._close(edge)
        self._begin()

    @fault()
    def kill(self, draw: random.Random) -> None:
        pair = choose(draw, (pair for pair in self.pairs if pair.there.alive))
        pair.there.kill()
        if not pair.gone:
            self._died(pair)

    @fault()
    def kill_a_sender(self, draw: random.Random) -> None:
        """Kill the peer while it sends, and something arrives."""
        edge = self._edge(draw)
        need(not edge.to_peer and not edge.doubtful)
        numbers = self._numbers(draw, 300)
        edge.peer.there.start(calls.send, edge.name, edge.fixed, numbers, draw.random() < 0.3)
        edge.waiting += numbers
        count = draw.randint(0, min(10, len(numbers)))
        digests, ended = edge.receiver.run(calls.take, edge.name, "receive", count, PATIENCE, 2)
        edge.took(digests)
        expect(ended, "", of="receive while the peer sends")
        edge.peer.there.kill()
        self._died(edge.peer)

    @fault()
    def kill_a_receiver(self, draw: random.Random) -> None:
        """Kill the peer while this process sends to it."""
        edge = self._edge(draw)
        need(edge.to_peer)
        edge.peer.there.start(calls.iterate, edge.name, False)
        sent = edge.sender.run(calls.send, edge.name, edge.fixed, self._numbers(draw, 30), False)
        expect(sent, "", of="send")
        edge.waiting.append(1)  # some may not be taken
        edge.peer.there.kill()
        edge.peer.gone = True
        closed = edge.sender.run(calls.call, edge.name, "close", PATIENCE)
        expect(closed, "", "PeerDead", of="close of a sender to the dead")
        edge.over = True
        self._died(edge.peer)

    @fault()
    def stop(self, draw: random.Random) -> None:
        """Stop the peer; what was sent arrives as far as it is here, and the rest later."""
        edge = self._edge(draw)
        need(not edge.doubtful)
        there = edge.peer.there
        there.stop()
        if edge.to_peer:
            numbers = self._numbers(draw, 3)
            # A copy that is offered is free again once it was taken.
            for number in numbers:
                edge.sender.kept[edge.name].send(calls.made(number, edge.fixed), PATIENCE)
            edge.waiting += numbers
            closed = edge.sender.run(calls.call, edge.name, "close", SHORT)
            expect(closed, "DeadlineExceeded", of="close while the receiver is stopped")
            there.go_on()
            edge.over = True
            there.start(calls.iterate, edge.name, False)
            closed = edge.sender.run(calls.call, edge.name, "close", PATIENCE)
            digests, ended = there.result()
            expect(ended, "ends", of="an iteration after SIGCONT")
            expect(closed, "", of="close after SIGCONT")
            edge.took(digests)
            assert not edge.waiting, f"the iteration lacks {len(edge.waiting)} arrays"
            self._close(edge)
            return
        digests, ended = edge.receiver.run(calls.take, edge.name, "receive", 1 << 30, SHORT, 2)
        edge.took(digests)
        expect(ended, "DeadlineExceeded", of="receive from a peer that is stopped")
        there.go_on()

    @fault()
    def stop_a_sender(self, draw: random.Random) -> None:
        """Stop the peer in the middle of sending: everything arrives after SIGCONT."""
        edge = self._edge(draw)
        need(not edge.to_peer and not edge.doubtful)
        there, numbers = edge.peer.there, self._numbers(draw, 60)
        there.start(calls.send, edge.name, edge.fixed, numbers, False)
        edge.waiting += numbers
        there.stop()
        digests, ended = edge.receiver.run(calls.take, edge.name, "receive", 1 << 30, SHORT, 0)
        edge.took(digests)
        expect(ended, "DeadlineExceeded", of="receive from a peer that is stopped")
        there.go_on()
        arguments = len(edge.waiting), PATIENCE, 2
        digests, ended = edge.receiver.run(calls.take, edge.name, "receive", *arguments)
        edge.took(digests)
        expect(ended, "", of="receive after SIGCONT")
        expect(there.result(), "", of="send over a stop")

    @fault()
    def close_channel(self, draw: random.Random) -> None:
        """Close the channel in order, from either side."""
        pair = choose(draw, (p for p in self.pairs if p.there.runs and not p.gone))
        pair.gone = True
        by_peer = draw.random() < 0.5
        closer, other = (pair.there, pair.near) if by_peer else (pair.near, pair.there)
        closer.run(calls.close_channel)
        for edge in self.edges:
            if edge.peer is not pair or edge.over:
                continue
            edge.over = True
            ended = "Unavailable" if edge.receiver is other else "Cancelled"
            if edge.receiver is other:
                self._arrives_at_most(edge, ended)
            else:
                _, ended = edge.receiver.run(calls.take, edge.name, "receive", 1 << 30, PATIENCE, 0)
                expect(ended, "Cancelled", "FailedPrecondition", of="receive, channel closed")
            self._sends_end(edge, "Unavailable", "Cancelled", "FailedPrecondition")
            self._close(edge)
        need(sum(pair.there.alive for pair in self.pairs) < 3)
        self._begin()

    def at_rest(self) -> None:
        draw = self.draw
        self.look_at_kept(draw)
        for edge in list(self._open()):
            if edge.peer.there.runs:
                self.end(draw) if self._edge(draw) is edge else None
        for pair in self.pairs:
            if pair.there.runs:
                pair.there.run(calls.finish)
