"""gRPC over Farwrite: messages come once, in order, with their bytes, or their call fails.

The server and the clients are those of tests/grpc/connections, which compare every byte. All keep
messages past the ends of their calls, the peer's death and the end of the channel.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farwrite.run.grpc_component import OWN, PRELOADED
from farwrite_bench.cluster.process import free_ports
from processes import stop
from random_programs.actors import temporary_folder, until
from random_programs.program import World as AnyWorld
from random_programs.program import choose, fault, need, step

sys.path.append(str(Path(__file__).parents[1] / "grpc"))
from grpc_programs import PROGRAMS, GrpcProgram, listens
from grpc_statistics import Statistics
from sanitized import PRELOAD

LIMIT = 40.0
"""Seconds that a call may take that is to end well: a bound, and no measure."""
BRIEF = 0.1
"""Seconds of a call that is to end by its limit."""
OK, CANCELLED, OVERDUE, UNAVAILABLE = 0, 1, 4, 14
"""gRPC's numbers of statuses."""
SIZES = (1, 100, 8191, 8192, 16380, 65530, 65531, 100_000, 1_000_003, 3_900_000)
MOST_OF_A_CALL = 4_000_000
MOST_KEPT = 100_000_000
"""Bytes that a client keeps at most. A receiver that keeps this many gets copies."""
MOST_OPEN = 4


@dataclass(eq=False)
class Channel:
    number: int
    doubtful: bool = False
    """Whether the connection may have ended since the last call that went well."""


@dataclass(eq=False)
class Call:
    """A call under way, and how it may end."""

    number: int
    channel: Channel
    server: Program
    up: int
    """Bytes of all messages to the server."""
    messages: int
    """That come to the client if all goes well."""
    down: int
    may: set[int] = field(default_factory=lambda: {OK})
    alone: bool = False
    """Whether it ends without the server."""


class Program(GrpcProgram):
    """A client or a server, and what the model knows of it."""

    alive, stands = True, False
    carried = 0
    """Bytes of messages of calls that went well."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.channels: list[Channel] = []
        self.calls: list[Call] = []
        self.kept: dict[int, int] = {}
        """Bytes of messages that the client keeps, by the number of their call."""

    @property
    def runs(self) -> bool:
        return self.alive and not self.stands

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()
        self.alive = self.stands = False

    def stop(self) -> None:
        stop(self.pid)
        self.stands = True

    def go_on(self) -> None:
        self.send(signal.SIGCONT)
        self.stands = False

    def ended(self, statistics: Statistics | None) -> None:
        """Check what it has counted, now that it has ended normally."""
        self.alive = False
        if statistics is None:
            assert not self.carried, f"{self.name} under Farwrite ended without its statistics"
            return
        moved = statistics.sent_bytes + statistics.received_bytes
        assert moved >= self.carried, f"{self.carried} bytes over gRPC, {moved} over Farwrite"


class World(AnyWorld):
    @staticmethod
    def is_built() -> bool:
        return (PROGRAMS / "connection_server").is_file() and (OWN / PRELOADED).is_file()

    def __init__(self, fabric: str, draw: random.Random, stack: contextlib.ExitStack) -> None:
        super().__init__(fabric, draw, stack)
        self.folder = Path(temporary_folder(stack))
        self.port = str(free_ports(1)[0])
        self.options = draw.choice([[], ["--fixed_windows"]])
        self.numbers = itertools.count(1)
        self._serve()
        self.clients: list[Program] = []
        for _ in range(draw.choice([1, 1, 2])):
            self._connect()

    def _start(self, name: str, *arguments: str, obeys: bool) -> Program:
        variables = {
            "FARWRITE_GRPC_FABRICS": self.fabric,
            "FARWRITE_GRPC_REQUIRE": "1",
            "GRPC_VERBOSITY": "ERROR",
        }
        program = Program(
            [*PRELOAD, *(f"{key}={value}" for key, value in variables.items()),
             PROGRAMS / f"connection_{name}", *arguments, self.port],
            self.folder, f"{name}_{next(self.numbers)}", obeys=obeys,
        )  # fmt: skip
        return self.stack.enter_context(program)

    def _serve(self) -> None:
        self.server = self._start("server", *self.options, obeys=False)
        self.server.wait_until_it_listens(int(self.port))

    def _connect(self) -> None:
        client = self._start("client", "obey", obeys=True)
        self.clients.append(client)
        self._open(client)

    def _open(self, client: Program) -> None:
        channel = Channel(next(self.numbers))
        client.ask(f"open {channel.number}")
        client.channels.append(channel)

    # --- Calls.

    def _begin(
        self, draw: random.Random, client: Program, channel: Channel, unary: bool,
        seconds: float = LIMIT,
    ) -> Call:  # fmt: skip
        up, down = draw.choice(SIZES), draw.choice(SIZES)
        most = 1 if unary else 12
        counts = [draw.randint(1, max(1, min(most, MOST_OF_A_CALL // n))) for n in (up, down)]
        if not unary and draw.random() < 0.3:
            counts[draw.randrange(2)] = 0
        number = next(self.numbers)
        numbers = [0, up, 0, down] if unary else [counts[0], up, counts[1], down]
        words = [number, channel.number, int(seconds * 1000), draw.randint(1, 4), *numbers]
        client.ask("start " + " ".join(map(str, words)))
        call = Call(number, channel, self.server, counts[0] * up, counts[1], counts[1] * down)
        if channel.doubtful:
            call.may.add(UNAVAILABLE)
        if seconds < LIMIT:
            call.may.add(OVERDUE)
            call.alone = True
        client.calls.append(call)
        return call

    def _end(self, client: Program, call: Call) -> int:
        """Wait for the end of a call, and check it. Returns its status."""
        answer = client.ask(f"end {call.number}", LIMIT + 10)
        client.calls.remove(call)
        status, count, wrong, why = answer.split("\t", 3)
        assert not wrong, f"call {call.number}: {wrong}"
        assert int(status) in call.may, (
            f"call {call.number} ended with {status}, not one of {sorted(call.may)}: {why}"
        )
        client.kept[call.number] = call.down
        if int(status) == OK:
            assert int(count) == call.messages, f"{count} of {call.messages} messages came"
            client.carried += call.up + call.down
            if call.server is self.server:
                call.channel.doubtful = False
                self.server.carried += call.up + call.down
        return int(status)

    def _client(self, draw: random.Random) -> Program:
        client = choose(draw, self.clients)
        need(sum(client.kept.values()) < MOST_KEPT)
        return client  # type: ignore[no-any-return]

    def _well(self, draw: random.Random, client: Program, channel: Channel) -> None:
        """Make a call that must go well, at last: a connection that has ended fails some before."""
        give_up = time.monotonic() + LIMIT
        while self._end(client, self._begin(draw, client, channel, unary=True)) != OK:
            assert time.monotonic() < give_up, f"no call goes well in {LIMIT:g} s"

    @step(8)
    def call(self, draw: random.Random) -> None:
        client = self._client(draw)
        need(self.server.runs)
        self._well(draw, client, choose(draw, client.channels))

    @step(8)
    def stream(self, draw: random.Random) -> None:
        client = self._client(draw)
        need(self.server.runs and len(client.calls) < MOST_OPEN)
        self._begin(draw, client, choose(draw, client.channels), unary=False)

    @step(6)
    def end(self, draw: random.Random) -> None:
        client = choose(draw, self.clients)
        self._end(client, choose(draw, (c for c in client.calls if self.server.runs or c.alone)))

    @step(4)
    def check(self, draw: random.Random) -> None:
        """Compare what a client keeps of all calls that have ended, one way or the other."""
        self._compare(choose(draw, self.clients))

    def _compare(self, client: Program) -> None:
        wrong = client.ask("check")
        assert not wrong, f"kept messages have changed: {wrong}"

    @step(4)
    def drop(self, draw: random.Random) -> None:
        client = choose(draw, self.clients)
        for number in draw.sample(sorted(client.kept), draw.randint(0, len(client.kept))):
            client.ask(f"drop {number}")
            del client.kept[number]

    @step(3)
    def open(self, draw: random.Random) -> None:
        client = choose(draw, self.clients)
        need(len(client.channels) < MOST_OPEN)
        self._open(client)

    @step(2)
    def close(self, draw: random.Random) -> None:
        """Close a channel. Its calls go on."""
        client = choose(draw, self.clients)
        channel = choose(draw, client.channels)
        client.ask(f"close {channel.number}")
        client.channels.remove(channel)

    @step(8)
    def start_server(self, draw: random.Random) -> None:
        need(not self.server.alive)
        self._serve()

    @step(8)
    def go_on(self, draw: random.Random) -> None:
        need(self.server.stands)
        self.server.go_on()

    # --- Faults.

    @fault(2)
    def cancel(self, draw: random.Random) -> None:
        client = choose(draw, self.clients)
        call = choose(draw, client.calls)
        client.ask(f"cancel {call.number}")
        call.may.add(CANCELLED)
        call.alone = True

    @fault(2)
    def overdue(self, draw: random.Random) -> None:
        """Make a call with a short limit, whatever the server does."""
        client = self._client(draw)
        need(len(client.calls) < MOST_OPEN)
        channel, unary = choose(draw, client.channels), draw.random() < 0.5
        call = self._begin(draw, client, channel, unary, draw.choice([0.001, 0.01, BRIEF]))
        if not self.server.runs:
            call.may.discard(OK)
            self._end(client, call)

    def _lost(self, *statuses: int) -> None:
        """The server has gone: its connections end, and so do their calls."""
        for client in self.clients:
            for channel in client.channels:
                channel.doubtful = True
            for call in client.calls:
                call.may |= {UNAVAILABLE, *statuses}
                call.channel.doubtful = True

    @fault()
    def kill_server(self, draw: random.Random) -> None:
        need(self.server.alive)
        self.server.kill()
        self._lost()

    @fault()
    def end_server(self, draw: random.Random) -> None:
        """End it normally: calls that it has begun may end. gRPC cancels those that wait."""
        need(self.server.runs)
        self.server.ended(self.server.interrupt())
        self._lost(CANCELLED)

    @fault()
    def stop_server(self, draw: random.Random) -> None:
        need(self.server.runs)
        self.server.stop()

    @fault()
    def kill_client(self, draw: random.Random) -> None:
        client = choose(draw, self.clients)
        client.kill()
        self.clients.remove(client)
        self._connect()

    @fault()
    def end_client(self, draw: random.Random) -> None:
        """End it normally, which cancels its calls."""
        client = choose(draw, self.clients)
        need(self.server.runs)
        client.ended(client.end_input())
        self.clients.remove(client)
        self._connect()

    @fault()
    def stop_client(self, draw: random.Random) -> None:
        """Stop a client for a while: nothing fails, and others are served."""
        client = choose(draw, self.clients)
        client.stop()
        time.sleep(draw.choice([0.0, BRIEF, 0.5]))
        for other in self.clients:
            if other is not client and other.channels and self.server.runs:
                self._well(draw, other, other.channels[0])
        client.go_on()

    @fault()
    def no_descriptors(self, draw: random.Random) -> None:
        """Without descriptors a connection goes on, a new one cannot be made, and later it can."""
        client = self._client(draw)
        need(self.server.runs)
        channel = choose(draw, client.channels)
        self._well(draw, client, channel)
        client.ask("descriptors 0")
        self._well(draw, client, channel)
        self._open(client)
        late = client.channels[-1]
        call = self._begin(draw, client, late, unary=True, seconds=BRIEF)
        call.may = {OVERDUE, UNAVAILABLE}
        self._end(client, call)
        client.ask("descriptors 1")
        self._well(draw, client, late)

    def at_rest(self) -> None:
        draw = random.Random(0)
        if self.server.stands:
            self.server.go_on()
        if not self.server.alive:
            self._serve()
        for client in self.clients:
            for call in list(client.calls):
                self._end(client, call)
            for channel in client.channels:
                self._well(draw, client, channel)
            self._compare(client)
            client.ended(client.end_input())
        self.server.ended(self.server.interrupt())
        until(lambda: not listens(int(self.port)), "the server's port is closed")
