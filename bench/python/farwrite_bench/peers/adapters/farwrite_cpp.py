"""Farwrite and the raw loop, in the C++ loops of ``bench p2p``."""

from __future__ import annotations

from farwrite.info import version
from farwrite_bench._native import slots
from farwrite_bench.p2p.pair import Pair, Phase
from farwrite_bench.p2p.plan import Case
from farwrite_bench.p2p.run import Measurement
from farwrite_bench.peers.peer import CPP, FARWRITE, LIMIT, Latency, Peer, Stream
from farwrite_bench.peers.site import Site


class CppLoops:
    """The writes of a pair of processes: Farwrite's, or those of the raw loop."""

    variant = None

    def __init__(self, pair: Pair, window: int, *, limit: bool, quick: bool) -> None:
        self._pair, self._window, self._limit, self._quick = pair, window, limit, quick
        self._seed = 0
        self._kernels = ("", "")
        self.settings = (
            "a memcpy into shared memory and a polled counter; the copy kernel that is best at the"
            " size, in either loop"
            if limit
            else f"Farwrite {version()}, writes with a notification over shm; the receiver polls"
        )

    def prepare(self, size: int) -> None:
        """Find the copy kernels that make the raw loop fastest."""
        self._case = Case(
            "write", size, 1, self._window_of(size), self._places(size), False, self._quick
        )
        if self._limit:
            measurement = Measurement(self._pair, self._case)
            measurement.choose_kernel()
            self._kernels = (measurement.latency_kernel, measurement.kernel)

    def latency(self, size: int, transfers: int) -> Latency:
        """Make transfers one at a time."""
        ours, theirs = self._pair.run(self._phase("latency", size, transfers, self._kernels[0]))
        return Latency(ours.samples_us or theirs.samples_us, ours.bad + theirs.bad)

    def stream(self, size: int, transfers: int) -> Stream:
        """Make transfers, the window at a time."""
        ours, theirs = self._pair.run(self._phase("bandwidth", size, transfers, self._kernels[1]))
        return Stream(
            transfers,
            theirs.seconds,
            ours.cpu_seconds + theirs.cpu_seconds,
            ours.bad + theirs.bad,
            1.0 if self._limit else (ours.copies + theirs.copies) / transfers,
        )

    def _phase(self, kind: str, size: int, transfers: int, kernel: str) -> Phase:
        self._seed += 1
        return Phase(
            op="write",
            kind=kind,
            limit=self._limit,
            size=size,
            transfers=transfers,
            window=self._window_of(size),
            seed=self._seed,
            kernel=kernel,
        )

    def _places(self, size: int) -> int:
        return slots(size, 1, self._pair.setup.pool_bytes)

    def _window_of(self, size: int) -> int:
        return min(self._window, self._places(size))


def _start(site: Site, *, limit: bool) -> CppLoops:
    ground = site.ground
    return CppLoops(ground.pair, ground.window, limit=limit, quick=ground.quick)


LIMIT_PEER = Peer(
    LIMIT,
    "raw loop (limit)",
    CPP,
    lambda site: _start(site, limit=True),
    memory=1.0,
)
PEER = Peer(
    FARWRITE[CPP],
    "Farwrite",
    CPP,
    lambda site: _start(site, limit=False),
    memory=1.5,
)
