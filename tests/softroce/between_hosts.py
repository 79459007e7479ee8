"""The contract between two hosts: what one process asks, another host's answers and confirms.

    between_hosts.py serve FABRIC ADDRESS
    between_hosts.py ask FABRIC ADDRESS PEER

Two channels join the two: what is tested goes over one, and over the other the asker tells the
server what to look at. Processes that are killed or stopped are forked by the server before it has
a device. Checks of the asker are the functions named check_*, run in order, each on its own line.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import numpy.typing as npt

import farwrite as fw
from farwrite_bench.p2p.hosts import counters

PORT = 7473
VICTIM_PORT = 7474
WAIT = 60.0
LANES = 2
DETECTION_SECONDS = 2.0
FROZEN_SECONDS = 5.0
# Around what travels inside a work request (128), what is copied into a slot of ours (8 KiB), one
# packet (4096), and the longest message of soft-RoCE in Linux 6.1 (8 MiB).
SIZES = (
    *(1, 127, 128, 129, 4095, 4096, 4097, 8191, 8192, 8193),
    *(65_535, 65_537, 1_000_003, (8 << 20) + 4097),
)
# One after another, hence at addresses of every kind.
PLACES = [(sum(SIZES[:number]), size) for number, size in enumerate(SIZES)]
POOL_BYTES = sum(SIZES)
UNCOPIED = (1 << 16, 1 << 20, 1 << 21)  # sizes of writes and reads whose counters are compared
BACKLOG = 600
VICTIM_BYTES = 1 << 16
REPORT = 0xFFFFFFFF  # the tag that asks a victim what it has got

Json = dict[str, Any]
Bytes = npt.NDArray[np.uint8]


def pattern(size: int, seed: int) -> Bytes:
    """Return bytes that differ with `seed`."""
    return np.frombuffer(np.random.default_rng(seed).bytes(size), np.uint8)


def checksum(data: bytes | Bytes) -> int:
    """Return what stands for these bytes."""
    return zlib.crc32(data)


def open_device(fabric: str, listen: str) -> fw.Device:
    """Open a device as every process here does."""
    return fw.Device(listen=listen, fabrics=[fabric], lanes=LANES, detection_time=DETECTION_SECONDS)


# The server.


def victim(orders: Connection, fabric: str, listen: str) -> None:
    """Serve one peer, until killed or told to end."""
    orders.recv()
    with open_device(fabric, listen) as device:
        orders.send(device.endpoint)
        with device.accept(WAIT) as channel:
            inbox = channel.publish("inbox", channel.allocate(VICTIM_BYTES))
            tags: list[int] = []
            for taken in channel.notifications():
                if taken.tag != REPORT:
                    tags.append(taken.tag)
                    continue
                report = {
                    "count": len(tags),
                    "in_order": tags == list(range(len(tags))),
                    "inbox": checksum(inbox.array),
                }
                channel.send(json.dumps(report).encode()).wait(WAIT)


class Server:
    """Does over the channel `data` what is told over the channel `control`."""

    def __init__(self, device: fw.Device, control: fw.Channel, data: fw.Channel) -> None:
        self.device = device
        self.control = control
        self.data = data
        self.inbox = data.publish("inbox", data.allocate(POOL_BYTES))
        self.doomed = data.publish("doomed", data.allocate(1 << 20))
        self.source = device.publish("source", device.allocate(POOL_BYTES))
        self.victims: list[tuple[Any, Connection]] = []

    def run(self) -> None:
        """Obey until the asker closes."""
        for order in self.control.notifications():
            words = json.loads(order.message)
            answer = getattr(self, "do_" + words.pop("do"))(**words)
            self.control.send(json.dumps(answer).encode()).wait(WAIT)

    def do_fill(self, seed: int) -> None:
        """Fill what the asker reads."""
        self.source.array[:] = pattern(POOL_BYTES, seed)

    def do_inbox(self) -> list[int]:
        """Give the checksum of each place."""
        return [checksum(self.inbox.array[start : start + size]) for start, size in PLACES]

    def do_count(self) -> Json:
        """Give the counters that transfers must not move."""
        return dict(counters(self.device, self.data))

    def do_clear(self) -> None:
        """Forget what was written."""
        self.inbox.array[:] = 0

    def do_take(self, count: int) -> list[list[int]]:
        """Take notifications: the checksum of each lane's tags, lengths and messages, in order."""
        lanes: list[list[int]] = [[0, 0] for _ in range(LANES)]
        for _ in range(count):
            taken = self.data.wait_notification(WAIT)
            line = f"{taken.tag} {len(taken.message)} ".encode() + taken.message
            lane = lanes[taken.lane]
            lane[0] += 1
            lane[1] = zlib.crc32(line, lane[1])
        assert self.data.try_notification() is None
        return lanes

    def do_revoke(self, seed: int) -> None:
        """Close the doomed array, and use its memory for something else."""
        self.doomed.close(WAIT)
        self.doomed.array[:] = pattern(1 << 20, seed)

    def do_doomed(self) -> int:
        """Give the checksum of that memory."""
        return checksum(self.doomed.array)

    def do_start(self, number: int) -> str:
        """Have a victim open its device."""
        _, orders = self.victims[number]
        orders.send("go")
        endpoint: str = orders.recv()
        return endpoint

    def do_signal(self, number: int, name: str) -> None:
        """Send a signal to a victim."""
        process, _ = self.victims[number]
        os.kill(process.pid, signal.Signals[name])
        if name == "SIGKILL":
            process.join()


def serve(fabric: str, address: str) -> None:
    """Play the server."""
    forked = multiprocessing.get_context("fork")
    victims = []
    for _ in range(2):
        ours, theirs = forked.Pipe()
        process = forked.Process(
            target=victim, args=(theirs, fabric, f"{address}:{VICTIM_PORT}"), daemon=True
        )
        process.start()
        victims.append((process, ours))
    with (
        open_device(fabric, f"{address}:{PORT}") as device,
        device.accept(WAIT) as control,
        device.accept(WAIT) as data,
    ):
        server = Server(device, control, data)
        server.victims = victims
        server.run()
    process.join(WAIT)  # the last one ends with its peer
    assert process.exitcode == 0, f"a victim ended with {process.exitcode}"


# The asker.


class Asker:
    """What the checks use."""

    def __init__(self, device: fw.Device, control: fw.Channel, data: fw.Channel) -> None:
        self.device = device
        self.control = control
        self.data = data
        self.inbox = data.lookup("inbox", WAIT)
        self.source = data.lookup("source", WAIT)
        self.doomed = data.lookup("doomed", WAIT)

    def tell(self, do: str, **words: Any) -> Any:
        """Have the server do something, and return what it answers."""
        self.control.send(json.dumps({"do": do, **words}).encode()).wait(WAIT)
        return json.loads(self.control.wait_notification(WAIT).message)

    def count(self) -> list[Json]:
        """Return the counters of both sides that transfers must not move."""
        return [dict(counters(self.device, self.data)), self.tell("count")]


class Lines:
    """What a lane's notifications should add up to at the server."""

    def __init__(self) -> None:
        self.lanes = [[0, 0] for _ in range(LANES)]

    def add(self, lane: int, tag: int, message: bytes = b"") -> None:
        """Expect one more."""
        self.lanes[lane][0] += 1
        self.lanes[lane][1] = zlib.crc32(
            f"{tag} {len(message)} ".encode() + message, self.lanes[lane][1]
        )


def check_writes_of_every_size_land(asker: Asker) -> None:
    """From a user's memory and from ours; the flush says that they have."""
    for seed, memory in ((1, np.empty(POOL_BYTES, np.uint8)), (2, asker.device)):
        source = memory.allocate(POOL_BYTES).array if isinstance(memory, fw.Device) else memory
        source[:] = pattern(POOL_BYTES, seed)
        asker.tell("clear")
        for start, size in PLACES:
            asker.data.write(source[start : start + size], asker.inbox, start)
        asker.data.flush().wait(WAIT)
        assert asker.tell("inbox") == [checksum(source[at : at + size]) for at, size in PLACES]


def check_notified_writes_are_whole_when_they_are_told(asker: Asker) -> None:
    """The server looks as soon as it has taken the notifications; nothing is flushed."""
    source = pattern(POOL_BYTES, 3)
    asker.tell("clear")
    lines = Lines()
    for number, (start, size) in enumerate(PLACES):
        lane = number % LANES
        asker.data.write(source[start : start + size], asker.inbox, start, notify=number, lane=lane)
        lines.add(lane, number)
    assert asker.tell("take", count=len(PLACES)) == lines.lanes
    assert asker.tell("inbox") == [checksum(source[at : at + size]) for at, size in PLACES]


def check_reads_of_every_size_fill_their_destination(asker: Asker) -> None:
    """Into a user's memory and into ours."""
    asker.tell("fill", seed=4)
    wanted = pattern(POOL_BYTES, 4)
    for place in (np.zeros(POOL_BYTES, np.uint8), asker.device.allocate(POOL_BYTES).array):
        reads = [
            asker.data.read(asker.source, place[start : start + size], start)
            for start, size in PLACES
        ]
        for read in reads:
            read.wait(WAIT)
        np.testing.assert_array_equal(place, wanted)


def check_allocated_memory_is_neither_copied_nor_registered_again(asker: Asker) -> None:
    """By a write or a read over verbs, on either side; other fabrics copy."""
    memory = asker.device.allocate(max(UNCOPIED)).array

    def move() -> None:
        for size in UNCOPIED:
            asker.data.write(memory[:size], asker.inbox).wait(WAIT)
            asker.data.read(asker.source, memory[:size]).wait(WAIT)

    move()  # iWARP registers a segment again for the first read into it
    before = asker.count()
    move()
    after = asker.count()
    assert asker.data.peer.fabric != "verbs" or after == before, (before, after)


def check_notifications_of_all_kinds_keep_their_lanes_order(asker: Asker) -> None:
    """Tags, messages and notified writes, mixed."""
    lines = Lines()
    word = pattern(8, 5)
    for number in range(200):
        lane = number // 3 % LANES
        if number % 3 == 0:
            asker.data.notify(number, lane=lane)
            lines.add(lane, number)
        elif number % 3 == 1:
            message = bytes([number]) * (number * 17)
            asker.data.send(message, number, lane=lane)
            lines.add(lane, number, message)
        else:
            asker.data.write(word, asker.inbox, notify=number, lane=lane)
            lines.add(lane, number)
    assert asker.tell("take", count=200) == lines.lanes


def check_messages_up_to_the_maximum_arrive(asker: Asker) -> None:
    """A longer one is refused and harms nothing."""
    most = asker.data.max_message_bytes
    lines = Lines()
    sizes = (0, 1, 128, most - 1, most)
    for size in sizes:
        message = pattern(size, size).tobytes()
        asker.data.send(message, size).wait(WAIT)
        lines.add(0, size, message)
    try:
        asker.data.send(bytes(most + 1), 0).wait(WAIT)
    except fw.Error as error:
        assert str(most) in str(error), error
    else:
        raise AssertionError("a message that is too long was taken")
    assert asker.tell("take", count=len(sizes)) == lines.lanes


def check_what_the_peer_does_not_take_waits_and_writes_pass(asker: Asker) -> None:
    """More notifications than there are credits."""
    before = asker.data.stats().backlogged
    lines = Lines()
    for number in range(BACKLOG):
        asker.data.notify(number, lane=0)
        lines.add(0, number)
    # The queue of another fabric is longer.
    assert asker.data.stats().backlogged > before or asker.data.peer.fabric != "verbs"
    source = pattern(100_000, 6)
    asker.data.write(source, asker.inbox).wait(WAIT)
    asker.data.flush().wait(WAIT)
    assert asker.tell("inbox")[0] == checksum(source[:1])
    assert asker.tell("take", count=BACKLOG) == lines.lanes


def check_memory_is_registered_on_demand_or_before(asker: Asker) -> None:
    """What is registered explicitly makes no transfer wait."""

    def counts() -> tuple[int, int]:
        adapters = asker.device.stats().adapters
        return adapters.on_demand, adapters.transfers_registered

    before = counts()
    asker.data.write(pattern(200_000, 7).copy(), asker.inbox).wait(WAIT)
    after = counts()
    on_demand = asker.data.peer.fabric == "verbs"
    assert (after[0] > before[0] and after[1] > before[1]) == on_demand, (before, after)
    memory = pattern(200_000, 8).copy()
    with asker.device.register(memory) as registration:
        assert registration.has_effect == on_demand
        before = counts()
        for _ in range(5):
            asker.data.write(memory, asker.inbox).wait(WAIT)
        assert counts()[1] == before[1], "a transfer waited for what was registered"


def check_a_region_that_its_owner_closes_takes_no_more(asker: Asker) -> None:
    """Writes fail from then on and say why, and none lands."""
    source = pattern(1 << 20, 9)
    for _ in range(4):
        asker.data.write(source, asker.doomed)
    asker.tell("revoke", seed=10)
    try:
        asker.data.write(source, asker.doomed).wait(WAIT)
        asker.data.flush().wait(WAIT)  # over tcp it is the owner that refuses, and this one tells
    except fw.FailedPrecondition as error:
        assert "closed by its owner" in str(error), error
    else:
        raise AssertionError("a write into a closed region was taken")
    assert asker.tell("doomed") == checksum(pattern(1 << 20, 10))


def check_a_killed_peer_is_dead_and_its_next_start_another(asker: Asker) -> None:
    """The error names the peer, and comes to what is under way, waits, or is tried later."""
    endpoint = asker.tell("start", number=0)
    channel = asker.device.connect(endpoint, WAIT)
    first = channel.peer
    inbox = channel.lookup("inbox", WAIT)
    source = pattern(VICTIM_BYTES, 11)
    channel.write(source, inbox).wait(WAIT)
    killed = time.monotonic()
    asker.tell("signal", number=0, name="SIGKILL")
    calls: list[Callable[[], object]] = [
        lambda: channel.wait_notification(WAIT),
        lambda: channel.write(source, inbox).wait(WAIT),
        lambda: channel.flush().wait(WAIT),
        lambda: channel.send(b"anybody?").wait(WAIT),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except fw.PeerDead as error:
            assert endpoint in str(error), error
        else:
            raise AssertionError(f"call {number} found the killed peer alive")
        if number == 0:
            print(f"  known dead {time.monotonic() - killed:.2f} s after the kill", flush=True)
    assert channel.peer_state is fw.PeerState.DEAD
    stale = inbox.descriptor
    channel.close()

    assert asker.tell("start", number=1) == endpoint
    channel = asker.device.connect(endpoint, WAIT)
    assert channel.peer.epoch > first.epoch, (first, channel.peer)
    assert channel.peer.uuid == first.uuid
    try:
        channel.open(stale, timeout=WAIT)
    except fw.PeerRestarted:
        pass
    else:
        raise AssertionError("a region of the earlier start was found")
    freeze(asker, channel)
    channel.close()


def freeze(asker: Asker, channel: fw.Channel) -> None:
    """Stop the peer for longer than it takes to be called silent; nothing is lost."""
    inbox = channel.lookup("inbox", WAIT)
    asker.tell("signal", number=1, name="SIGSTOP")
    until = time.monotonic() + FROZEN_SECONDS
    source = pattern(VICTIM_BYTES, 12)
    for number in range(BACKLOG):
        channel.notify(number, lane=0)
    channel.write(source, inbox)
    silent = False
    while time.monotonic() < until:
        time.sleep(0.2)
        silent = silent or channel.peer_state is fw.PeerState.SILENT
    asker.tell("signal", number=1, name="SIGCONT")
    assert silent, "a peer that was stopped was never called silent"
    channel.flush().wait(WAIT)
    channel.notify(REPORT).wait(WAIT)
    report = json.loads(channel.wait_notification(WAIT).message)
    assert report == {"count": BACKLOG, "in_order": True, "inbox": checksum(source)}, report
    until = time.monotonic() + WAIT  # the report may overtake the control message that is read
    while channel.peer_state is not fw.PeerState.ALIVE:
        assert time.monotonic() < until, "a peer that went on was never called alive"
        time.sleep(0.1)
    assert channel.stats().silences > 0


def ask(fabric: str, address: str, peer: str) -> None:
    """Play the asker."""
    with (
        open_device(fabric, f"{address}:0") as device,
        device.connect(f"{peer}:{PORT}", WAIT) as control,
        device.connect(f"{peer}:{PORT}", WAIT) as data,
    ):
        assert data.peer.fabric == fabric
        asker = Asker(device, control, data)
        for name, check in list(globals().items()):
            if not name.startswith("check_"):
                continue
            began = time.monotonic()
            check(asker)
            print(f"{name.removeprefix('check_')}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 5 and sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3], sys.argv[4])
    else:
        sys.exit(__doc__)
