"""``bench p2p`` between two hosts: one serves memory, the other writes and reads it.

The asking side streams plain writes or reads between memory that Farwrite allocated on both sides,
with a fixed number under way. The processor of the serving side does nothing. ib_write_bw and
ib_read_bw work the same way. Between the streams the asking side sends requests over the same
channel, and the serving side answers them. Both are JSON objects.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite import Channel, Device
from farwrite.errors import Error, InvalidArgument, Unavailable
from farwrite.units import format_size
from farwrite_bench._native import Op, StreamTarget
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Progress
from farwrite_bench.p2p.pair import POLLING_SPIN_SECONDS
from farwrite_bench.ratio import digits
from farwrite_bench.report.parts import Facts
from farwrite_bench.sizes import KIB, MIB

OPS = ("write", "read")
SIZES = (4 * KIB, 64 * KIB, MIB, 2 * MIB)
POOL_BYTES, QUICK_POOL_BYTES = 256 * MIB, 16 * MIB
WINDOW = 128
"""The default of perftest."""
ANSWER_SECONDS = 120.0
"""How long one side waits for a message; filling a large pool takes seconds."""

_WORD = np.dtype(np.uint64)
_LANDING, _SOURCE = "bench.landing", "bench.source"

Json = dict[str, Any]
Words = npt.NDArray[np.uint64]


def counters(device: Device, channel: Channel) -> Counter[str]:
    """Read the counters of this process that must not grow during transfers.

    ``copies`` are passes over payload bytes, ``registrations`` segments registered with a fabric,
    ``adapter_registrations`` registrations of segments and of users' memory with an RDMA adapter,
    and ``transfers_registered`` transfers that waited for a registration.
    """
    stats = device.stats()
    adapters = stats.adapters
    return Counter(
        copies=channel.stats().copies,
        registrations=stats.registrations,
        adapter_registrations=adapters.segments + adapters.on_demand,
        transfers_registered=adapters.transfers_registered,
    )


class Service:
    """The serving side of one channel. A subclass may extend `answer`."""

    def __init__(self, device: Device, channel: Channel) -> None:
        self.device = device
        self.channel = channel
        self._landing: Words = np.empty(0, _WORD)
        self._source: Words = np.empty(0, _WORD)

    def run(self) -> None:
        """Answer until the asking side closes the channel."""
        for request in self.channel.notifications():
            try:
                answer = self.answer(json.loads(request.message))
            except (Error, OSError) as error:
                answer = {"error": str(error)}
            self.channel.send(json.dumps(answer).encode()).wait(ANSWER_SECONDS)

    def answer(self, request: Json) -> Json:
        """Carry out a request and return the answer."""
        match request:
            case {"do": "prepare", "words": words}:
                landing = self.channel.allocate(words, _WORD)
                source = self.device.allocate(words, _WORD)
                self._landing, self._source = landing.array, source.array
                self.channel.publish(_LANDING, landing)
                self.channel.publish(_SOURCE, source)
            case {"do": "fill", "first": first}:
                fill(self._source, first)
            case {"do": "clear"}:
                self._landing[:] = 0
            case {"do": "check", "first": first, "words": words}:
                return {"wrong": wrong_words(self._landing[:words], first)}
            case {"do": "count"}:
                return counters(self.device, self.channel)
            case _:
                return {
                    "error": f"bench p2p: unknown request {request.get('do')!r}; run the same"
                    " version on both hosts"
                }
        return {}


@dataclass
class Series:
    """The rounds of one operation at one size."""

    op: str
    size: int
    transfers: int
    window: int
    seconds: list[float] = field(default_factory=list)
    single_us: float = 0.0
    """Mean time of a few transfers, one at a time."""
    wrong_words: int = 0
    ours: Counter[str] = field(default_factory=Counter)
    """The growth of the counters of this side, during the rounds."""
    theirs: Counter[str] = field(default_factory=Counter)

    def rates(self) -> list[float]:
        """Return the bytes per second of each round."""
        return [self.size * self.transfers / seconds for seconds in self.seconds]


class Asker:
    """The side that writes and reads."""

    def __init__(self, device: Device, channel: Channel, pool_bytes: int) -> None:
        self.device = device
        self.channel = channel
        words = pool_bytes // _WORD.itemsize
        self._local: Words = device.allocate(words, _WORD).array
        self.ask(do="prepare", words=words)
        capsule = channel.as_capsule()
        self._landing = StreamTarget(capsule, _LANDING)
        self._source = StreamTarget(capsule, _SOURCE)
        self._first = 1
        self.unsure = False
        """Whether a series failed without an answer: one may come late."""

    def ask(self, **request: Any) -> Json:
        """Send a request and return its answer."""
        self.channel.send(json.dumps(request).encode()).wait(ANSWER_SECONDS)
        message = self.channel.wait_notification(ANSWER_SECONDS).message
        answer: Json = json.loads(message)
        if "error" in answer:
            self.unsure = False
            raise Error(f"the serving side: {answer['error']}")
        return answer

    def measured(self, series: Series, rounds: int) -> Json:
        """Measure a series, and return its row."""
        self.unsure = True
        self.warm_up(series)
        self.single(series)
        for _ in range(rounds):
            self.round(series)
        self.unsure = False
        return row(series)

    def warm_up(self, series: Series) -> None:
        """Run a round that is not measured, and check every word of it."""
        self._first += 1
        words = min(series.size * series.transfers, self._pool(series.size)) // _WORD.itemsize
        if series.op == "write":
            fill(self._local, self._first)
            self.ask(do="clear")
            self._stream(series, series.transfers, series.window)
            series.wrong_words += self.ask(do="check", first=self._first, words=words)["wrong"]
        else:
            self._local[:] = 0
            self.ask(do="fill", first=self._first)
            self._stream(series, series.transfers, series.window)
            series.wrong_words += wrong_words(self._local[:words], self._first)

    def single(self, series: Series) -> None:
        """Time a few transfers, one at a time."""
        count = min(series.transfers, 10)
        series.single_us = self._stream(series, count, 1) / count * 1e6

    def round(self, series: Series) -> None:
        """Run one measured round."""
        series.theirs.subtract(self.ask(do="count"))
        series.ours.subtract(counters(self.device, self.channel))
        series.seconds.append(self._stream(series, series.transfers, series.window))
        series.ours.update(counters(self.device, self.channel))
        series.theirs.update(self.ask(do="count"))

    def _pool(self, size: int) -> int:
        """Return the bytes of the pool that transfers of `size` use."""
        return self._local.nbytes // size * size

    def _stream(self, series: Series, transfers: int, window: int) -> float:
        target = self._landing if series.op == "write" else self._source
        memory = self._local.view(np.uint8)
        return target.run(memory, Op[series.op.upper()], series.size, transfers, window)


def fill(words: Words, first: int) -> None:
    """Fill each word with a different number."""
    words[:] = np.arange(first << 32, (first << 32) + len(words), dtype=_WORD)


def wrong_words(words: Words, first: int) -> int:
    """Count the words that differ from those of fill()."""
    expected = np.arange(first << 32, (first << 32) + len(words), dtype=_WORD)
    return int(np.count_nonzero(words != expected))


@dataclass(frozen=True)
class HostPlan:
    """A request of the asking side whose values are checked."""

    peer: str
    """The address at which the other host serves."""
    fabric: str | None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""
    listen: str | None
    """The address at which this host listens; None: 127.0.0.1 alone."""
    wait: str
    """"poll" or "block"."""
    ops: tuple[str, ...]
    sizes: tuple[int, ...]
    window: int
    rounds: int
    pool_bytes: int
    transfers: int
    """Transfers of one round. 0: as many as move `pool_bytes`, and at least two windows."""

    def __post_init__(self) -> None:
        for op in self.ops:
            if op not in OPS:
                raise InvalidArgument(
                    f"bench p2p: no operation '{op}' between hosts; use {' or '.join(OPS)}"
                )
        for size in self.sizes:
            if size < 8 or size % 8 != 0 or size > self.pool_bytes:
                raise InvalidArgument(
                    f"bench p2p: a size of {format_size(size)}; use multiples of 8 bytes, up to"
                    f" --pool, {format_size(self.pool_bytes)}"
                )
        if not 1 <= self.window <= 1024 or self.transfers < 0:
            raise InvalidArgument("bench p2p: use --window 1 to 1024, --transfers of 1 or more")

    def series(self) -> list[Series]:
        """Make the series to measure."""
        made = []
        for op in self.ops:
            for size in self.sizes:
                count = self.transfers or max(self.pool_bytes // size, 2 * self.window)
                made.append(Series(op, size, min(count, 20000), self.window))
        return made


def open_device(fabric: str | None, listen: str | None, wait: str) -> Device:
    """Open the device of one host."""
    options: dict[str, Any] = {}
    if fabric:
        options["fabrics"] = [fabric]
    if listen:
        options["listen"] = listen
    return Device(spin=POLLING_SPIN_SECONDS if wait == "poll" else 0.0, **options)


def measure(plan: HostPlan, progress: Progress) -> Facts:
    """Measure with the serving side; return ``channel``, what connects the hosts, and ``rows``."""
    rows: list[Json] = []
    failed: dict[str, str] = {}
    with (
        open_device(plan.fabric, plan.listen, plan.wait) as device,
        device.connect(plan.peer) as channel,
    ):
        asker = Asker(device, channel, plan.pool_bytes)
        all_series = plan.series()
        for number, series in enumerate(all_series):
            progress(number / len(all_series), f"{series.op} {format_size(series.size)}")
            if not asker.unsure:
                failed = {}
                with noting(failed, plan.peer):
                    rows.append(asker.measured(series, plan.rounds))
            if failed:
                rows.append({"op": series.op, "size": series.size, "error": failed[plan.peer]})
        peer = channel.peer
        there = {"fabric": peer.fabric, "reason": peer.fabric_reason, "peer": peer.endpoint}
    return {"channel": there, "rows": rows}


def row(series: Series) -> Json:
    """Make the row of a series."""
    rates = [rate / 1e9 for rate in series.rates()]
    measured = series.transfers * len(rates)
    return {
        "op": series.op,
        "size": series.size,
        "window": series.window,
        "transfers": series.transfers,
        "rounds": len(rates),
        "gb_s": digits(statistics.median(rates)),
        "gb_s_spread": [digits(min(rates)), digits(max(rates))],
        "single_us": digits(series.single_us),
        "copies": round((series.ours["copies"] + series.theirs["copies"]) / measured, 3),
        "counters": {"asking": dict(series.ours), "serving": dict(series.theirs)},
        "verified": series.wrong_words == 0,
        "wrong_words": series.wrong_words,
    }


def serve(device: Device, once: bool) -> None:
    """Serve one channel after the other, or only the first one if `once` is set."""
    while True:
        with device.accept() as channel:
            try:
                Service(device, channel).run()
            except Unavailable as error:
                if once:
                    raise
                print(f"bench: {error}", flush=True)
        if once:
            return
