"""A box: a version counts each acknowledged change once, and names what the model says.

The bytes of a lease never change, no news are lost once all is at rest, and a server that starts
from a snapshot goes on from it. All values are whole numbers, so that every sum is exact.
"""

from __future__ import annotations

import contextlib
import copy
import random
from typing import Any

import numpy as np

import farwrite as fw
from random_programs import box_calls as calls
from random_programs.actors import Here, There, expect, new_tally, temporary_folder, until
from random_programs.box_model import DTYPES, LARGEST, SHAPES, BoxWorld, Client, Segment
from random_programs.program import choose, fault, need, step

NAMES = ("a", "b", "c", "d")
AWAITED = ("wait", "wait_async", "updates", "min_version")


class World(BoxWorld):
    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.link = stack.enter_context(fw.Device())
        self.folder = temporary_folder(stack)
        self.tally, self.path = new_tally(stack)
        self.saved: dict[str, Segment] | None = None
        self.lives = 0
        self.server = There(self.link, stack)
        self.endpoint = self.server.run(calls.serve, None, fabric, self.folder, False)
        here = Here()
        stack.callback(calls.finish, here)
        self.clients = [Client(here)]
        self.clients += [Client(There(self.link, stack)) for _ in range(draw.choice([1, 2]))]
        for client in self.clients:
            client.actor.run(calls.connect, self.endpoint, fabric)

    # --- Steps.

    @step(6)
    def create(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = choose(draw, (one for one in NAMES if one not in self.segments))
        shape, dtype = draw.choice(SHAPES), draw.choice(DTYPES)
        if self.segments and draw.random() < 0.5:  # so that changes of two are possible
            like = draw.choice(list(self.segments.values()))
            shape, dtype = like.values.shape, like.dtype
        self._forget(client, name)
        buffers = draw.choice([2, 3, 4, 8])
        epoch = client.actor.run(calls.create, name, shape, dtype, buffers)
        self.lives += 1
        made = Segment(np.zeros(shape, dtype), dtype, buffers, epoch, self.lives)
        self.segments[name] = made
        client.lives[name] = made.life

    @step(12)
    def change(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        one = self._change(draw, client, name)
        version = client.actor.run(calls.change, name, one)
        assert version == self.segments[name].version, f"{one[0]} made version {version}"

    @step(5)
    def post(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        changes, versions = [], []
        for _ in range(draw.randint(1, 12)):
            changes.append(self._change(draw, client, name))
            versions.append(self.segments[name].version)
        found = client.actor.run(calls.post, name, changes, draw.random() < 0.5)
        assert found == versions, f"versions {found}, not {versions}"

    @step(5)
    def burst(self, draw: random.Random) -> None:
        """Let several processes add at the same time, and read meanwhile."""
        reader = self._client(draw)
        name = self._segment(draw, reader)
        segment = self.segments[name]
        need(np.abs(segment.values).max(initial=0) <= LARGEST)
        adding = [one for one in self.clients[1:] if one.actor.runs and one is not reader]
        count = draw.randint(1, 60)
        self._begin_burst(draw, adding, name, count)
        before = segment.version
        for _ in range(draw.randint(0, 8)):
            values, version = reader.actor.run(calls.read, name, "with version", 0)
            self._read_between(segment, before, values, version)
            before = version
        for one in adding:
            expect(one.actor.result(), "", of="a burst of changes")
        self._added(segment, count * len(adding))

    def _begin_burst(
        self, draw: random.Random, adding: list[Client], name: str, count: int
    ) -> bool:
        """Let processes add 1; one alone may also write the sums. Returns whether it does."""
        writes = len(adding) == 1 and draw.random() < 0.5
        before = self.segments[name].values if writes else None
        in_flight = draw.choice([1, 4, 20])
        for at, one in enumerate(adding):
            self.tally[2 * at] = self.tally[2 * at + 1] = 0
            self._attached(one, name)
            one.actor.start(calls.burst, name, count, self.path, 2 * at, in_flight, before)
        return writes

    def _read_between(self, segment: Segment, least: int, values: Any, version: int) -> None:
        assert version >= least, f"version {version} was read after {least}"
        added = segment.values + segment.values.dtype.type(version - segment.version)
        assert np.array_equal(values, added), f"a read of version {version} is torn or wrong"

    def _added(self, segment: Segment, count: int) -> None:
        segment.values = segment.values + segment.values.dtype.type(count)
        segment.version += count

    @step(10)
    def read(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        segment = self.segments[name]
        way = draw.choice(calls.READS)
        if way == "lease" and self._pinned(name) >= segment.buffers - 1:
            return
        values, version = client.actor.run(calls.read, name, way, segment.version)
        assert version in (None, segment.version), f"{way}: version {version}"
        assert np.array_equal(values, segment.values), f"{way} of '{name}' is not what it must be"

    @step(3)
    def facts(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        segment = self.segments[name]
        epoch, version, chunk = client.actor.run(calls.facts, name)
        assert (epoch, version) == (segment.epoch, segment.version), f"{epoch}, {version}"
        assert chunk <= version, f"a chunk has version {chunk}, and the segment {version}"

    @step(2)
    def new_epoch(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        segment = self.segments[name]
        segment.changed(np.full_like(segment.values, 3))
        one = "write", (segment.values,), {"new_epoch": True}
        assert client.actor.run(calls.change, name, one) == segment.version
        epoch, _, _ = client.actor.run(calls.facts, name)
        assert epoch > segment.epoch, f"epoch {epoch} after {segment.epoch}"
        segment.epoch = epoch

    def _pinned(self, name: str) -> int:
        """How many versions of a segment other than the present one may be leased."""
        segment = self.segments[name]
        versions = {
            version
            for client in self.clients
            for life, version in client.leases
            if life == segment.life
        }
        return len(versions - {segment.version})

    @step(5)
    def lease(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        segment = self.segments[name]
        need(self._pinned(name) < segment.buffers - 1)
        values, epoch, version = client.actor.run(calls.keep_lease, name)
        assert (epoch, version) == (segment.epoch, segment.version), f"leased {epoch}, {version}"
        assert np.array_equal(values, segment.values), "a lease shows something else"
        client.leases.append((segment.life, version))

    @step(4)
    def look_at_leases(self, draw: random.Random) -> None:
        for client in self.clients:
            if client.actor.runs:
                wrong = client.actor.run(calls.changed_leases)
                assert not wrong, f"bytes of leases have changed: {wrong}"

    @step(2)
    def drop_leases(self, draw: random.Random) -> None:
        client = choose(draw, (one for one in self.clients if one.actor.runs))
        client.actor.run(calls.drop_leases)
        if self.fabric == "tcp" or self.server.runs:
            client.leases.clear()

    @step(4)
    def wait(self, draw: random.Random) -> None:
        """Wait in one process for the change of another one."""
        waiting, changing = self._client(draw, there=True), self.clients[0]
        name = self._segment(draw, waiting)
        self._attached(changing, name)
        version = self.segments[name].version + 1
        waiting.actor.start(calls.await_version, name, draw.choice(AWAITED), version)
        one = self._change(draw, changing, name)
        made = changing.actor.run(calls.change, name, one)
        found = waiting.actor.result()
        assert version == made == found, f"waited for {version}: made {made}, found {found}"

    @step(3)
    def watch(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        need(name not in client.watched)
        client.actor.run(calls.watch, name)
        client.watched.add(name)
        self.segments[name].changed(np.full_like(self.segments[name].values, 5))
        version = client.actor.run(calls.change, name, ("fill", (5,), {}))
        assert version == self.segments[name].version
        self._has_news(client, name)

    @step(3)
    def news(self, draw: random.Random) -> None:
        client = self._client(draw)
        self._has_news(client, choose(draw, client.watched))

    def _has_news(self, client: Client, name: str) -> None:
        segment = self.segments.get(name)
        if segment is None or client.lives[name] != segment.life:
            until(lambda: client.actor.run(calls.news_of, name)[-1:] == ["NotFound"],
                  "a callback gets the end of a segment that was freed")  # fmt: skip
            self._forget(client, name)
            return
        until(lambda: client.actor.run(calls.news_of, name)[-1:] == [segment.version],
              f"a callback gets version {segment.version}")  # fmt: skip
        news = client.actor.run(calls.news_of, name)
        assert news == sorted(set(news)), f"versions do not rise: {news}"

    @step(2)
    def free(self, draw: random.Random) -> None:
        client = self._client(draw)
        name = self._segment(draw, client)
        client.actor.run(calls.free, name)
        del self.segments[name]

    @step(2)
    def use_what_was_freed(self, draw: random.Random) -> None:
        client = self._client(draw)
        names = [
            name
            for name, life in client.lives.items()
            if name not in self.segments or self.segments[name].life != life
        ]
        name = choose(draw, names)
        for called, found in client.actor.run(calls.try_all, name).items():
            allowed = ("",) if called == "list" else ("NotFound",)
            if called == "attach":
                allowed = ("DeadlineExceeded", "NotFound")
            expect(found, *allowed, of=f"{called} of a segment that was freed")
        self._forget(client, name)

    @step(2)
    def refused(self, draw: random.Random) -> None:
        client = self._client(draw)
        found = client.actor.run(calls.refused, self._segment(draw, client))
        expected = ["InvalidArgument", "InvalidArgument", "OutOfRange", "OutOfRange"]
        assert found == [*expected, "AlreadyExists"], f"changes that do not fit: {found}"

    @step(3)
    def list(self, draw: random.Random) -> None:
        client = self._client(draw)
        found = client.actor.run(calls.listed)
        expected = {
            name: (one.values.shape, one.dtype, one.version, one.epoch)
            for name, one in self.segments.items()
        }
        assert {name: fields[:4] for name, fields in found.items()} == expected, f"{found}"

    @step(2)
    def snapshot(self, draw: random.Random) -> None:
        need(self.server.runs)
        self.server.run(calls.snapshot)
        self.saved = copy.deepcopy(self.segments)

    # --- Faults.

    def _connect(self, client: Client) -> None:
        client.lives.clear()
        client.watched.clear()
        client.actor.run(calls.connect, self.endpoint, self.fabric)

    def _replace(self, client: Client) -> None:
        """Start a process in place of one that was killed."""
        client.actor = There(self.link, self.stack)
        client.leases.clear()
        self._connect(client)

    @fault()
    def close_client(self, draw: random.Random) -> None:
        self._connect(self._client(draw))

    @fault()
    def kill_client(self, draw: random.Random) -> None:
        client = self._client(draw, there=True)
        client.actor.kill()
        self._without(client)
        self._replace(client)

    def _without(self, killed: Client) -> None:
        """Wait until the box knows that a client has died."""
        attached = {
            name: sum(
                client.lives.get(name) == segment.life
                for client in self.clients
                if client is not killed
            )
            for name, segment in self.segments.items()
        }

        def knows() -> bool:
            found = self.clients[0].actor.run(calls.listed)
            return all(found[name][4] <= count for name, count in attached.items())

        until(knows, f"the box knows that a client has died: {attached}")

    @fault()
    def kill_in_a_burst(self, draw: random.Random) -> None:
        client, reader = self._client(draw, there=True), self.clients[0]
        name = self._segment(draw, client)
        self._attached(reader, name)
        segment = self.segments[name]
        need(np.abs(segment.values).max(initial=0) <= LARGEST)
        reader.actor.run(calls.facts, name)
        self._begin_burst(draw, [client], name, 100_000)
        enough = draw.randint(0, 100)
        until(lambda: self.tally[1] >= enough, f"{enough} changes are acknowledged")
        client.actor.kill()
        self._without(client)
        values, version = reader.actor.run(calls.read, name, "with version", 0)
        self._read_between(segment, segment.version, values, version)
        sent, done, applied = self.tally[0], self.tally[1], version - segment.version
        assert done <= applied <= sent, f"{applied} applied; {done} acknowledged, {sent} sent"
        self._added(segment, applied)
        client.actor.busy = False
        self._replace(client)

    @fault()
    def stop_client(self, draw: random.Random) -> None:
        """Stop a client in the middle of changes; the others go on."""
        client, other = self._client(draw, there=True), self.clients[0]
        name = self._segment(draw, client)
        self._attached(other, name)
        segment = self.segments[name]
        need(np.abs(segment.values).max(initial=0) <= LARGEST)
        count, others = draw.randint(1, 80), draw.randint(1, 10)
        if self._begin_burst(draw, [client], name, count):
            others = 0  # it would write over what they add
        client.actor.stop()
        free = not any(life == segment.life for one in self.clients for life, _ in one.leases)
        if free and segment.buffers > 2:
            values, version = other.actor.run(calls.read, name, "lease", 0)
            self._read_between(segment, segment.version, values, version)
        for _ in range(others):
            other.actor.run(calls.change, name, ("accumulate", (np.ones_like(segment.values),), {}))
        values, version = other.actor.run(calls.read, name, "with version", 0)
        self._read_between(segment, segment.version + others, values, version)
        client.actor.go_on()
        expect(client.actor.result(), "", of="a burst over a stop")
        self._added(segment, count + others)

    @fault()
    def stop_lessee(self, draw: random.Random) -> None:
        """Stop a client that leases until it counts as silent: it keeps no buffer from others."""
        need(self.soon_silent and self.server.runs)
        client = choose(draw, (one for one in self.clients[1:] if one.actor.runs))
        names = [
            name
            for name, segment in self.segments.items()
            if client.lives.get(name) == segment.life
            and {one for one in self.clients for life, _ in one.leases if life == segment.life}
            == {client}
        ]
        name, other = choose(draw, names), self.clients[0]
        segment = self.segments[name]
        self._attached(other, name)
        client.actor.stop()
        until(lambda: other.actor.run(calls.silent, name) > 0, "the client counts as silent")
        for value in range(segment.buffers + 2):
            segment.changed(np.full_like(segment.values, value))
            one = "write", (segment.values,), {}
            assert other.actor.run(calls.change, name, one) == segment.version
            values, version = other.actor.run(calls.read, name, "lease", 0)
            assert version == segment.version
            assert np.array_equal(values, segment.values), f"a lease of version {version}"
        client.actor.go_on()
        self.look_at_leases(draw)

    @fault()
    def stop_server(self, draw: random.Random) -> None:
        """Give a wait for a stopped server up: the change counts once, when the server goes on."""
        client = self._client(draw)
        name = self._segment(draw, client)
        client.actor.run(calls.facts, name)
        one = self._change(draw, client, name)
        for other in one[1]:
            if isinstance(other, str):
                client.actor.run(calls.facts, other)
        self.server.stop()
        assert client.actor.run(calls.given_up, name, one) is None, "a stopped server answered"
        self.server.go_on()
        version = client.actor.run(calls.taken_up, name)
        assert version == self.segments[name].version, f"a change over a stop: {version}"

    def _server_ended(self, draw: random.Random, error: str) -> None:
        """Check what the clients are told, and start the server again."""
        for client in self.clients:
            name = choose(draw, client.lives) if client.lives else None
            until(lambda c=client: c.actor.run(calls.try_all, None)["list"] == error,
                  f"a client gets {error}")  # fmt: skip
            for called, found in client.actor.run(calls.try_all, name).items():
                expect(found, error, of=f"{called} after {error}")
        self.look_at_leases(draw)
        restored = self.saved is not None
        self.server = There(self.link, self.stack)
        self.server.run(calls.serve, self.endpoint, self.fabric, self.folder, restored)
        self.segments = copy.deepcopy(self.saved or {})
        for client in self.clients:
            client.leases.clear()  # they pin nothing of the new server
            self._connect(client)
        for name, segment in self.segments.items():
            self.lives += 1
            segment.life = self.lives
            epoch, version, _ = self.clients[0].actor.run(calls.facts, name)
            self.clients[0].lives[name] = segment.life
            assert version == segment.version, f"'{name}' was restored with version {version}"
            assert epoch > segment.epoch, f"'{name}' was restored in epoch {epoch}"
            segment.epoch = epoch
        if self.saved is not None:
            self.saved = copy.deepcopy(self.segments)  # lower epochs would do as well

    @fault()
    def kill_server(self, draw: random.Random) -> None:
        need(self.server.runs)
        self.server.kill()
        self._server_ended(draw, "PeerDead")

    @fault()
    def close_server(self, draw: random.Random) -> None:
        """Close the server in order, with a last snapshot."""
        need(self.server.runs)
        self.server.run(calls.close_server)
        self.server.end()
        self.server.alive = False
        self.saved = copy.deepcopy(self.segments)
        self._server_ended(draw, "Unavailable")

    def at_rest(self) -> None:
        draw = self.draw
        self.look_at_leases(draw)
        for client in self.clients:
            for name in list(client.watched):
                self._has_news(client, name)
            for name, segment in self.segments.items():
                self._attached(client, name)
                values, _ = client.actor.run(calls.read, name, "read", 0)
                assert np.array_equal(values, segment.values), f"'{name}' at rest"
        for client in self.clients[1:]:
            client.actor.run(calls.finish)
