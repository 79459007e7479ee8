"""Channels: what was acknowledged is there; notifications come in order, once, after their bytes.

After the first error of a peer's end nothing succeeds, and memory that is aliased stays as it was.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field
from typing import Any

import farwrite as fw
from random_programs import channel_calls as calls
from random_programs.actors import PATIENCE, SHORT, Here, There, expect, new_tally, until
from random_programs.channel_model import Way
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

NAMES = ("x", "y", "z")


@dataclass
class Pair:
    """A process with a device, and the channel to it."""

    there: There
    near: Here
    endpoint: str
    epoch: int
    to_peer: Any = None
    to_here: Any = None
    descriptor: bytes = b""
    """Of the peer's inbox."""

    def ways(self) -> list[Way]:
        return [self.to_peer, self.to_here]


@dataclass
class Out:
    """An array that a device publishes."""

    owner: Any
    name: str
    value: int
    aliases: list[tuple[Any, int]] = field(default_factory=list)
    """The process and the number of each alias."""


class World(AnyWorld):
    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.lanes = draw.choice([1, 1, 2, 4])
        self.options = {
            "fabrics": [fabric], "lanes": self.lanes, "segment_bytes": "4M",
            "receive_segment_bytes": "4M",
        }  # fmt: skip
        self.link = stack.enter_context(fw.Device())
        self.tally, self.path = new_tally(stack)
        self.device = stack.enter_context(fw.Device(**self.options))
        self.here = Here()  # of what belongs to no channel
        self.here.kept["device"] = self.device
        stack.callback(self.here.kept.clear)
        self.outs: list[Out] = []
        self.frozen: list[tuple[Any, int, int]] = []
        """Aliases of what is gone: process, number and value."""
        self.counted = 0
        self.pairs = [self._pair() for _ in range(draw.choice([1, 2, 3]))]

    def _count(self) -> int:
        self.counted += 1
        return self.counted

    def _pair(self) -> Pair:
        there, near = There(self.link, self.stack), Here()
        self.stack.callback(near.kept.clear)
        endpoint, epoch = there.run(calls.open_device, None, self.options)
        pair = Pair(there, near, endpoint, epoch)
        self._connect(pair)
        return pair

    def _connect(self, pair: Pair) -> None:
        """Open a channel from this process to the peer, with an inbox on each side."""
        near, there = pair.near, pair.there
        near.kept["device"] = self.device
        there.start(calls.accept)
        near.kept["channel"] = self.device.connect(pair.endpoint, PATIENCE)
        there.result()
        near.run(calls.open_inbox)
        pair.descriptor = there.run(calls.open_inbox)
        for side in (near, there):
            side.run(calls.find_inbox)
        pair.to_peer, pair.to_here = Way(near, there, self.lanes), Way(there, near, self.lanes)

    def _running(self, draw: random.Random) -> Pair:
        return choose(draw, (pair for pair in self.pairs if pair.there.runs))  # type: ignore[no-any-return]

    def _way(self, draw: random.Random) -> Way:
        return draw.choice(self._running(draw).ways())

    # --- Steps.

    @step(8)
    def write(self, draw: random.Random) -> None:
        way = self._way(draw)
        cells = draw.sample(range(calls.CELLS), draw.randint(1, 3))
        values = [self._count() for _ in cells]
        lane = draw.randrange(self.lanes)
        expect(way.sender.run(calls.write, cells, values, None, lane), "", of="write")
        for cell, value in zip(cells, values, strict=True):
            way.cells[cell].write(value)

    @step(10)
    def write_with_notify(self, draw: random.Random) -> None:
        way = self._way(draw)
        need(way.waiting() < 200)
        for _ in range(draw.randint(1, 10)):
            cell, value, lane = (
                draw.randrange(calls.CELLS),
                self._count(),
                draw.randrange(self.lanes),
            )
            tag = value * 16 + cell
            expect(way.sender.run(calls.write, [cell], [value], tag, lane), "", of="write")
            way.cells[cell].write(value)
            way.notes[lane].append((tag, b""))

    @step(6)
    def notify(self, draw: random.Random) -> None:
        way = self._way(draw)
        need(way.waiting() < 200)
        for _ in range(draw.randint(1, 10)):
            tag, lane = self._count() * 16 + calls.NO_CELL, draw.randrange(self.lanes)
            message = draw.randbytes(draw.choice([0, 1, 30, 200])) if draw.random() < 0.5 else None
            expect(way.sender.run(calls.notify, tag, message, lane), "", of="notify")
            way.notes[lane].append((tag, message or b""))

    @step(6)
    def flush(self, draw: random.Random) -> None:
        way = self._way(draw)
        expect(way.sender.run(calls.flush), "", of="flush")
        way.flushed()

    @step(6)
    def look(self, draw: random.Random) -> None:
        self._way(draw).look()

    @step(12)
    def take(self, draw: random.Random) -> None:
        way = self._way(draw)
        need(way.waiting() and way.handled is None)
        kind, count = draw.choice(calls.WAYS), draw.randint(1, way.waiting())
        taken, ended = way.receiver.run(calls.take, kind, count, PATIENCE)
        way.took(taken)
        expect(ended, "", of=f"{kind} of {count}")

    @step(2)
    def take_nothing(self, draw: random.Random) -> None:
        way = self._way(draw)
        need(not way.waiting() and way.handled is None)
        kind = draw.choice(calls.WAYS[:-1])
        taken, ended = way.receiver.run(calls.take, kind, 1, SHORT)
        assert not taken, f"{taken} came, and nothing was sent"
        expect(ended, "DeadlineExceeded", of=kind)

    @step(2)
    def handle(self, draw: random.Random) -> None:
        """Give what waits and what follows to a handler."""
        way = self._way(draw)
        need(way.handled is None)
        way.receiver.run(calls.handle)
        way.handled = 0

    @step(3)
    def look_at_handler(self, draw: random.Random) -> None:
        way = self._way(draw)
        need(way.handled is not None)
        self._handled(way, draw.random() < 0.5)

    def _handled(self, way: Way, stop: bool) -> None:
        assert way.handled is not None
        expected = way.handled + way.waiting()
        until(lambda: len(way.receiver.run(calls.handled, False)) >= expected,
              f"a handler gets {way.waiting()} more notifications")  # fmt: skip
        found = way.receiver.run(calls.handled, stop)
        way.took(found[way.handled :], later=True)
        way.handled = None if stop else len(found)

    # --- What devices publish.

    def _sides(self) -> list[Any]:
        return [self.here, *(pair.there for pair in self.pairs if pair.there.runs)]

    def _reader(self, draw: random.Random, out: Out) -> Any:
        """Choose a process with a channel to the owner."""
        if out.owner is self.here:
            return self._running(draw).there
        return next(pair.near for pair in self.pairs if pair.there is out.owner)

    def _out(self, draw: random.Random) -> Out:
        return choose(draw, (out for out in self.outs if out.owner.runs))  # type: ignore[no-any-return]

    @step(4)
    def publish(self, draw: random.Random) -> None:
        owner = choose(draw, self._sides())
        used = {out.name for out in self.outs if out.owner is owner}
        name, value = choose(draw, (one for one in NAMES if one not in used)), self._count()
        owner.run(calls.publish, name, value)
        self.outs.append(Out(owner, name, value))

    @step(6)
    def lookup(self, draw: random.Random) -> None:
        out = self._out(draw)
        found = self._reader(draw, out).run(calls.lookup, out.name, PATIENCE, draw.random() < 0.5)
        assert found == [out.value], f"'{out.name}' is {found}, not {out.value}"

    @step(3)
    def set_out(self, draw: random.Random) -> None:
        out = self._out(draw)
        out.value = self._count()
        out.owner.run(calls.set_out, out.name, out.value)

    @step(2)
    def unpublish(self, draw: random.Random) -> None:
        out = self._out(draw)
        out.owner.run(calls.unpublish, out.name)
        self._gone(out)
        found = self._reader(draw, out).run(calls.lookup, out.name, SHORT, False)
        assert found == "NotFound", f"'{out.name}' was unpublished: {found}"

    def _gone(self, out: Out) -> None:
        self.outs.remove(out)
        self.frozen += [(holder, number, out.value) for holder, number in out.aliases]

    @step(5)
    def alias(self, draw: random.Random) -> None:
        out = self._out(draw)
        reader, number = self._reader(draw, out), self._count()
        ended = reader.run(calls.alias, out.name, number)
        expect(ended, "" if self.fabric == "shm" else "Unsupported", of="alias")
        if not ended:
            out.aliases.append((reader, number))

    @step(4)
    def look_at_aliases(self, draw: random.Random) -> None:
        expected = self.frozen + [
            (holder, number, out.value) for out in self.outs for holder, number in out.aliases
        ]
        for holder in {id(one): one for one, _, _ in expected}.values():
            if not holder.runs:
                continue
            found = holder.run(calls.aliases)
            for one, number, value in expected:
                if one is holder:
                    assert found[number] == [value], f"an alias shows {found[number]}, not {value}"

    @step(2)
    def drop_aliases(self, draw: random.Random) -> None:
        holder = choose(draw, [one for pair in self.pairs for one in (pair.near, pair.there)])
        need(holder.runs)
        holder.run(calls.drop_aliases)
        self._without_aliases_of(holder)

    def _without_aliases_of(self, holder: Any) -> None:
        self.frozen = [one for one in self.frozen if one[0] is not holder]
        for out in self.outs:
            out.aliases = [one for one in out.aliases if one[0] is not holder]

    # --- Faults.

    def _drain(self, way: Way, *ends: str) -> None:
        """What comes is the next of each lane, and then one of the errors, now and again."""
        if way.handled is not None:
            return  # the handler gets no error
        taken, ended = way.receiver.run(calls.take, "wait_notification", 1 << 30, PATIENCE)
        way.took(taken)
        expect(ended, *ends, of="the end of notifications")
        for kind in calls.WAYS:
            taken, ended = way.receiver.run(calls.take, kind, 1, PATIENCE)
            assert not taken, f"{taken} came after {ends}"
            allowed = ends if ended != "ends" else ("ends",)
            expect(ended, *allowed, of=f"{kind} after {ends}")

    def _dead(self, pair: Pair) -> None:
        """Check this side after the peer's death."""
        until(lambda: pair.near.run(calls.peer_state) == "dead", "the peer counts as dead")
        self._drain(pair.to_here, "PeerDead")
        for called, found in pair.near.run(calls.try_all).items():
            expect(found, "PeerDead", of=f"{called} to the dead")
        pair.to_here.look()

    def _restart(self, pair: Pair) -> None:
        """Start the peer again, at the same endpoint."""
        for out in [out for out in self.outs if out.owner is pair.there]:
            self._gone(out)
        self._without_aliases_of(pair.there)
        pair.near.run(calls.forget)
        pair.there = There(self.link, self.stack)
        self._reopen(pair)

    def _reopen(self, pair: Pair) -> None:
        before, old = pair.epoch, pair.descriptor
        _, pair.epoch = pair.there.run(calls.open_device, pair.endpoint, self.options)
        assert pair.epoch > before, f"epoch {pair.epoch} after {before}"
        self._connect(pair)
        found = pair.near.run(calls.open_descriptor, old)
        assert found == "PeerRestarted", f"a descriptor of an earlier start: {found or 'opened'}"

    @fault()
    def kill(self, draw: random.Random) -> None:
        pair = choose(draw, (pair for pair in self.pairs if pair.there.alive))
        pair.there.kill()
        self._dead(pair)
        self.look_at_aliases(draw)
        self._restart(pair)

    @fault()
    def kill_a_writer(self, draw: random.Random) -> None:
        """Kill the peer while it writes with notifications."""
        pair = self._running(draw)
        way = pair.to_here
        need(way.handled is None)
        first, lane = self._count(), draw.randrange(self.lanes)
        self.tally[0] = self.tally[1] = 0
        pair.there.start(calls.burst, 20_000, first, self.path, lane)
        kind, count = draw.choice(calls.WAYS), way.waiting() + draw.randint(0, 40)
        for value in range(first, first + 20_000):
            way.cells[value % calls.CELLS].write(value)
            way.notes[lane].append((value * 16 + value % calls.CELLS, b""))
        taken, ended = way.receiver.run(calls.take, kind, count, PATIENCE)
        way.took(taken)
        expect(ended, "", of="notifications of a peer that writes")
        pair.there.kill()
        self.counted += 20_000
        self._dead(pair)
        self._restart(pair)

    @fault()
    def stop(self, draw: random.Random) -> None:
        """Stop the peer, write to it, and go on."""
        pair = self._running(draw)
        way, there = pair.to_peer, pair.there
        there.stop()
        cell, value, lane = draw.randrange(calls.CELLS), self._count(), draw.randrange(self.lanes)
        tag = value * 16 + cell
        expect(way.sender.run(calls.write, [cell], [value], tag, lane), "", of="write to a stopped")
        way.cells[cell].write(value)
        way.notes[lane].append((tag, b""))
        flushed = way.sender.run(calls.flush, SHORT)
        expect(flushed, "" if self.fabric == "shm" else "DeadlineExceeded", of="flush to a stopped")
        if not flushed:
            way.flushed()
        if pair.to_here.handled is None:
            taken, ended = pair.near.run(calls.take, "wait_notification", 1 << 30, SHORT)
            pair.to_here.took(taken)
            expect(ended, "DeadlineExceeded", of="notifications of a stopped peer")
        there.go_on()
        expect(way.sender.run(calls.flush), "", of="flush after SIGCONT")
        way.flushed()
        way.look()

    @fault()
    def stop_a_read(self, draw: random.Random) -> None:
        """Read from a peer that is stopped."""
        out = self._out(draw)
        need(out.owner is not self.here)
        pair = next(pair for pair in self.pairs if pair.there is out.owner)
        pair.near.run(calls.hold, out.name)
        pair.there.stop()
        found = pair.near.run(calls.read_held, SHORT)
        expected = [out.value] if self.fabric == "shm" else "DeadlineExceeded"
        assert found == expected, f"a read from a stopped peer: {found}"
        pair.there.go_on()
        assert pair.near.run(calls.read_held, PATIENCE) == [out.value]

    @fault()
    def stop_a_writer(self, draw: random.Random) -> None:
        """Stop the peer while it writes; everything comes once it goes on."""
        pair = self._running(draw)
        way, lane = pair.to_here, draw.randrange(self.lanes)
        need(way.handled is None)
        count, first = draw.randint(1, 60), self._count()
        self.counted += count
        for value in range(first, first + count):
            way.cells[value % calls.CELLS].write(value)
            way.notes[lane].append((value * 16 + value % calls.CELLS, b""))
        pair.there.start(calls.burst, count, first, self.path, lane)
        pair.there.stop()
        taken, ended = way.receiver.run(calls.take, "wait_notification", 1 << 30, SHORT)
        way.took(taken)
        expect(ended, "DeadlineExceeded", of="notifications of a stopped peer")
        pair.there.go_on()
        expect(pair.there.result(), "", of="writes over a stop")
        taken, ended = way.receiver.run(
            calls.take, draw.choice(calls.WAYS), way.waiting(), PATIENCE
        )
        way.took(taken)
        expect(ended, "", of="notifications after SIGCONT")

    @fault()
    def close_channel(self, draw: random.Random) -> None:
        """Close the channel in order, from either side, and open another one."""
        pair = self._running(draw)
        way = draw.choice(pair.ways())
        closer, other = way.sender, way.receiver
        backlogged = closer.run(calls.close_channel)
        until(lambda: other.run(calls.peer_state) == "closed", "the peer counts as closed")
        if way.handled is None:
            self._drain(way, "Unavailable")
        else:
            self._handled(way, stop=False) if not backlogged else None
        assert backlogged or not way.waiting(), f"{way.waiting()} notifications are lost"
        way.look()
        for called, found in closer.run(calls.try_all).items():
            expect(found, "Cancelled", "FailedPrecondition", of=f"{called}, channel closed here")
        for called, found in other.run(calls.try_all).items():
            expect(found, "Unavailable", of=f"{called}, channel closed by the peer")
        for side in (closer, other):
            side.run(calls.forget)
        self._connect(pair)
        self.look_at_aliases(draw)

    @fault()
    def restart(self, draw: random.Random) -> None:
        """Close the peer's device in order, and open another one at the same endpoint."""
        pair = self._running(draw)
        for out in [out for out in self.outs if out.owner is pair.there]:
            self._gone(out)
        pair.there.run(calls.close_device)
        until(lambda: pair.near.run(calls.peer_state) == "closed", "the peer counts as closed")
        self._drain(pair.to_here, "Unavailable")
        pair.to_here.look()
        pair.near.run(calls.forget)
        self.look_at_aliases(draw)
        self._reopen(pair)

    def at_rest(self) -> None:
        draw = self.draw
        self.look_at_aliases(draw)
        for pair in self.pairs:
            for way in pair.ways():
                expect(way.sender.run(calls.flush), "", of="flush at rest")
                way.flushed()
                if way.handled is not None:
                    self._handled(way, stop=True)
                taken, ended = way.receiver.run(
                    calls.take, "wait_notification", way.waiting(), PATIENCE
                )
                way.took(taken)
                expect(ended, "", of="notifications at rest")
                way.look()
        for pair in self.pairs:
            pair.there.run(calls.finish)
            pair.near.kept.pop("device")
            pair.near.kept.clear()
