"""Farwrite and the raw loop, in the C++ loops of ``bench p2p``."""

from __future__ import annotations

from farwrite.info import version
from farwrite_bench.p2p.pair import Pair
from farwrite_bench.p2p.plan import Plan, cases
from farwrite_bench.p2p.run import Measurement
from farwrite_bench.peers.peer import CPP, FARWRITE, LIMIT, Figures, Peer
from farwrite_bench.peers.plan import WINDOW
from farwrite_bench.peers.sides import Ground


class CppLoops:
    """The writes of a pair of processes: Farwrite's, or those of the raw loop."""

    variant = None

    def __init__(self, ground: Ground, *, limit: bool) -> None:
        self._pair: Pair = ground.pair
        self._quick, self._limit = ground.plan.quick, limit
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
            window=WINDOW,
            pool_bytes=setup.pool_bytes,
            rounds=1,
            quick=self._quick,
        )
        (case,) = cases(plan, setup.op)
        self._measurement = Measurement(self._pair, case)
        if self._limit:
            self._measurement.choose_kernel()

    def run(self, kind: str, size: int, transfers: int) -> Figures:
        """Make the transfers of a loop."""
        phase = self._measurement.phase(kind, limit=self._limit, transfers=transfers)
        ours, theirs = self._pair.run(phase)
        return Figures(
            theirs.seconds,
            ours.cpu_seconds + theirs.cpu_seconds,
            ours.bad + theirs.bad,
            ours.samples_us or theirs.samples_us,
            transfers if self._limit else ours.copies + theirs.copies,
        )


LIMIT_PEER = Peer(
    LIMIT,
    "raw loop (limit)",
    CPP,
    lambda site: CppLoops(site.ground, limit=True),
    memory=1.0,
)
PEER = Peer(
    FARWRITE[CPP],
    "Farwrite",
    CPP,
    lambda site: CppLoops(site.ground, limit=False),
    memory=1.5,
)
