"""Measures which share of a pipeline of writes goes into registering their memory, by size.

    registration_share.py serve FABRIC ADDRESS
    registration_share.py ask FABRIC ADDRESS PEER     prints the table; JSON in /out, where that is

One write after the other, from an array of the user's. Either each write registers the array,
waits for its completion and releases the registration, or all writes of a round share one
registration. Both take turns. The times are those of an emulated processor that also does the
adapter's work: they prove nothing about adapters, and no threshold is asserted. What is asserted
is how often the adapter registered memory, and that the bytes arrive.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from between_hosts import WAIT, Bytes, checksum, open_device, pattern

import farwrite as fw
from farwrite.units import format_size
from farwrite_bench.table import print_text

PORT = 7477
# (bytes, writes in a round): a second or so of each.
CASES = ((64 << 10, 64), (1 << 20, 16), (2 << 20, 8))
MOST_BYTES = max(size for size, _ in CASES)
ROUNDS = int(os.environ.get("BANDWIDTH_ROUNDS", "1"))
OUT = Path("/out/registration_share.json")
HEADERS = ("size", "registered", "writes", "ms each", "register", "release", "needed none")


@dataclass
class Series:
    """All rounds of one size, registered one way."""

    size: int
    registered: str
    writes: int = 0
    register_s: float = 0.0
    write_s: float = 0.0
    release_s: float = 0.0
    transfers: int = 0
    """As the adapter counted them."""
    registrations: int = 0
    """Of the array, as the adapter counted them."""

    def share(self, seconds: float) -> float:
        """Return the share of the pipeline's time."""
        return seconds / self.seconds

    @property
    def seconds(self) -> float:
        """The time of the pipeline."""
        return self.register_s + self.write_s + self.release_s

    def cells(self) -> list[str]:
        """Lay the row out."""
        none = self.transfers - self.registrations
        return [
            format_size(self.size),
            self.registered,
            str(self.writes),
            f"{1000 * self.seconds / self.writes:.2f}",
            f"{self.share(self.register_s):.2%}",
            f"{self.share(self.release_s):.2%}",
            f"{none / self.transfers:.1%}" if self.transfers else "-",
        ]


@dataclass(frozen=True)
class Asker:
    """The side that writes."""

    device: fw.Device
    channel: fw.Channel
    inbox: fw.RemoteArray

    def round(self, series: Series, source: Bytes, writes: int, sharing: int) -> None:
        """Write `writes` times; each registration is for `sharing` writes."""
        before = self.device.stats().adapters
        for _ in range(writes // sharing):
            began = perf_counter()
            registration = self.device.register(source)
            registered = perf_counter()
            for _ in range(sharing):
                self.channel.write(source, self.inbox).wait(WAIT)
            written = perf_counter()
            registration.release()
            series.register_s += registered - began
            series.write_s += written - registered
            series.release_s += perf_counter() - written
        after = self.device.stats().adapters
        series.writes += writes
        series.transfers += after.transfers - before.transfers
        series.registrations += after.on_demand - before.on_demand
        assert after.transfers_registered == before.transfers_registered, (before, after)
        assert after.live == before.live, "a registration was not released"

    def check(self, source: Bytes) -> None:
        """Compare what arrived with what was written."""
        self.channel.flush().wait(WAIT)
        self.channel.notify(source.size).wait(WAIT)
        arrived = json.loads(self.channel.wait_notification(WAIT).message)
        assert arrived == checksum(source), f"{source.size} bytes arrived damaged"

    def measure(self, size: int, writes: int) -> list[Series]:
        """Measure one size both ways, in turn."""
        ways = (Series(size, "for each"), 1), (Series(size, "once"), writes)
        for number in range(ROUNDS):
            for series, sharing in ways:
                source = pattern(size, number).copy()
                self.round(series, source, writes, sharing)
                self.check(source)
        for series, sharing in ways:
            if self.channel.peer.fabric == "verbs":
                assert series.transfers == series.writes, series
                assert series.registrations == series.writes // sharing, series
            else:
                assert series.transfers == series.registrations == 0, series
        return [series for series, _ in ways]


def ask(fabric: str, address: str, peer: str) -> None:
    """Measure and print."""
    with (
        open_device(fabric, f"{address}:0") as device,
        device.connect(f"{peer}:{PORT}", WAIT) as channel,
    ):
        assert channel.peer.fabric == fabric
        asker = Asker(device, channel, channel.lookup("inbox", WAIT))
        rows = [series for case in CASES for series in asker.measure(*case)]
    print("registering and releasing memory: shares of the time of one write after the other")
    print_text(HEADERS, [row.cells() for row in rows])
    if OUT.parent.is_dir():
        facts = {"fabric": fabric, "rounds": ROUNDS, "rows": [asdict(row) for row in rows]}
        OUT.write_text(json.dumps(facts, indent=2) + "\n")


def serve(fabric: str, address: str) -> None:
    """Answer each notification with the checksum of as many bytes as its tag says."""
    with open_device(fabric, f"{address}:{PORT}") as device, device.accept(WAIT) as channel:
        inbox = channel.publish("inbox", channel.allocate(MOST_BYTES)).array
        for asked in channel.notifications():
            channel.send(json.dumps(checksum(inbox[: asked.tag])).encode()).wait(WAIT)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "serve":
        serve(sys.argv[2], sys.argv[3])
    elif len(sys.argv) == 5 and sys.argv[1] == "ask":
        ask(sys.argv[2], sys.argv[3], sys.argv[4])
    else:
        sys.exit(__doc__)
