"""Farwrite and the raw loop, in the C++ loops of ``bench p2p``."""

from __future__ import annotations

from farwrite.info import version
from farwrite_bench.p2p.pair import Figures, Pair
from farwrite_bench.p2p.plan import Plan, cases
from farwrite_bench.p2p.run import Measurement
from farwrite_bench.peers.peer import CPP, FARWRITE, LIMIT, Latency, Peer, Stream
from farwrite_bench.peers.site import Site


class CppLoops:
    """The writes of a pair of processes: Farwrite's, or those of the raw loop."""

    variant = None

    def __init__(self, pair: Pair, window: int, *, limit: bool, quick: bool) -> None:
        self._pair, self._window, self._limit, self._quick = pair, window, limit, quick
        self.settings = (
            "a memcpy into shared memory and a polled counter; the copy kernel that is best at the"
            " size, in either loop"
            if limit
            else f"Farwrite {version()}, writes with a notification over shm; the receiver polls"
        )

    def prepare(self, size: int) -> None:
        """Find the copy kernels that make the raw loop fastest."""
        setup = self._pair.setup
        plan = Plan(
            fabric=setup.fabric,
            ops=(setup.op,),
            sizes=(size,),
            wait=setup.wait,
            lanes=setup.lanes,
            window=self._window,
            pool_bytes=setup.pool_bytes,
            rounds=1,
            quick=self._quick,
        )
        (case,) = cases(plan, setup.op)
        self._measurement = Measurement(self._pair, case)
        if self._limit:
            self._measurement.choose_kernel()

    def latency(self, size: int, transfers: int) -> Latency:
        """Make transfers one at a time."""
        ours, theirs = self._run("latency", transfers)
        return Latency(ours.samples_us or theirs.samples_us, ours.bad + theirs.bad)

    def stream(self, size: int, transfers: int) -> Stream:
        """Make transfers, the window at a time."""
        ours, theirs = self._run("bandwidth", transfers)
        return Stream(
            transfers,
            theirs.seconds,
            ours.cpu_seconds + theirs.cpu_seconds,
            ours.bad + theirs.bad,
            1.0 if self._limit else (ours.copies + theirs.copies) / transfers,
        )

    def _run(self, kind: str, transfers: int) -> tuple[Figures, Figures]:
        phase = self._measurement.phase(kind, limit=self._limit, transfers=transfers)
        return self._pair.run(phase)


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
