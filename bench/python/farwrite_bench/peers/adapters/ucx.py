"""UCX, in the C++ loops of its own program (`bench/ucx`)."""

from __future__ import annotations

import statistics

from farwrite_bench.peers.peer import CPP, Latency, Peer, Stream
from farwrite_bench.peers.site import Site
from farwrite_bench.ucx.build import HINT, build, find_library
from farwrite_bench.ucx.program import UcxProgram, settings

WAYS = {"tag": "tag", "putflag": "put+flag"}
"""Tagged messages; and a put, a fence and the put of a counter that the receiver polls."""
ZERO_COPY_BYTES = 2**16
"""From here on, a tagged message is copied once, by the kernel."""


class UcxLoops:
    """The running program. Each size takes the better of the two ways, in either loop."""

    def __init__(self, program: UcxProgram, window: int) -> None:
        self._program, self._window = program, window
        self._latency_way = self._stream_way = next(iter(WAYS))
        self._seed = 0
        chosen = ", ".join(f"{name}={value}" for name, value in settings().items())
        identity = program.identity
        self.settings = f"UCX {identity['version']}, {identity['library']}; {chosen}"

    @property
    def variant(self) -> str:
        """The ways that are measured."""
        ways = dict.fromkeys(WAYS[way] for way in (self._latency_way, self._stream_way))
        return "; streams ".join(ways)

    def prepare(self, size: int) -> None:
        """Choose the better way."""
        few = 8 if size >= 2**20 else 200
        times: dict[str, float] = {}
        rates: dict[str, float] = {}
        for way in (*WAYS, *WAYS):  # the first turn of each takes memory for the first time
            self._latency_way = self._stream_way = way
            times[way] = statistics.median(self.latency(size, few).samples_us)
            rates[way] = few / self.stream(size, few).seconds
        self._latency_way = min(times, key=times.__getitem__)
        self._stream_way = max(rates, key=rates.__getitem__)

    def latency(self, size: int, transfers: int) -> Latency:
        """Make transfers one at a time."""
        self._seed += 1
        found = self._program.run(self._latency_way, "latency", size, transfers, seed=self._seed)
        return Latency(found.samples_us, found.bad)

    def stream(self, size: int, transfers: int) -> Stream:
        """Make transfers, the window at a time."""
        self._seed += 1
        found = self._program.run(
            self._stream_way, "bandwidth", size, transfers, window=self._window, seed=self._seed
        )
        return Stream(transfers, found.seconds, found.cpu_seconds, found.bad)


def _start(site: Site) -> UcxLoops:
    library = find_library()
    program = UcxProgram((build(library), site.ground.pool_bytes), library)
    return UcxLoops(site.stack.enter_context(program), site.ground.window)


PEER = Peer(
    "ucx",
    "UCX",
    CPP,
    _start,
    module="libucx",
    install=HINT,
    copies=lambda size: 1 if size >= ZERO_COPY_BYTES else None,
    ahead="its put is a store of the bytes and a flag that is polled; Farwrite checks the region's"
    " grant and puts a record into the lane's ring",
    memory=1.5,
)
