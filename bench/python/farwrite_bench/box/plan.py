"""What one run of ``bench box`` measures, and how long that is expected to take."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from farwrite.errors import InvalidArgument, NotFound
from farwrite.info import memory_available
from farwrite_bench.box.openmpi import OpenMpi, find
from farwrite_bench.options import count
from farwrite_bench.sizes import GIB, MIB

EMULATION, BANDWIDTH, ACCUMULATE = "emulation", "bandwidth", "accumulate"
LATENCY, PUBLISH = "latency", "publish"
TESTS = (LATENCY, ACCUMULATE, PUBLISH, BANDWIDTH, EMULATION)
BOX_SHM, BOX_TCP, MPI, MPI_SHARED = "box-shm", "box-tcp", "mpi", "mpi-shared"
TRANSPORTS = (BOX_SHM, BOX_TCP, MPI, MPI_SHARED)
BOXES = (BOX_SHM, BOX_TCP)

WORKERS = (8,)
PROCESSES = (2, 8, 32)
ROUNDS, QUICK_ROUNDS = 3, 1
STEPS, QUICK_STEPS = 3, 2
MOST_WORKERS = 32
NETWORK_SECONDS = 45.0
WARM_UP_STEPS = 1
"""The first step of a turn reads without any push beside it."""
SEGMENT_BYTES = 10**9
QUICK_BYTES = 4 * MIB
SPARE_BYTES = 2 * GIB
"""Memory that a run leaves to the interpreters and to everything else."""
MEGABYTE = 10**6
"""10^6 bytes, as in the poster of the networks, and not 2^20."""


@dataclass(frozen=True)
class Network:
    """A network as its training looks from outside.

    The figures are those of the Soft Memory Box poster (ICSE 2018, section 3): one Titan X, Caffe.
    """

    key: str
    name: str
    megabytes: int
    """Of its parameters, in 10^6 bytes."""
    compute_ms: int
    """The computation of one step."""

    @property
    def bytes(self) -> int:
        """The bytes of its parameters."""
        return self.megabytes * MEGABYTE


NETWORKS = {
    each.key: each
    for each in (
        Network("inception_v1", "Inception-v1", 51, 189),
        Network("resnet50", "ResNet-50", 121, 233),
        Network("inception_resnet_v2", "Inception-ResNet-v2", 214, 296),
        Network("vgg16", "VGG-16", 528, 190),
    )
}


@dataclass(frozen=True)
class BoxPlan:
    """A whole run."""

    tests: tuple[str, ...]
    transports: tuple[str, ...]
    networks: tuple[Network, ...]
    workers: tuple[int, ...]
    """Numbers of workers in the emulation."""
    processes: tuple[int, ...]
    """Numbers of processes in the bandwidth test."""
    rounds: int
    steps: int
    """Measured steps of one turn of the emulation."""
    quick: bool
    available: int
    """Bytes of memory that the run may take."""
    network_seconds: float = math.inf
    """A network gets fewer rounds if it would take longer than this, but one at least."""
    openmpi: OpenMpi | None = None
    why_no_mpi: str = ""
    """Why OpenMPI was not found: the text of the rows that need it."""

    @property
    def boxes(self) -> tuple[str, ...]:
        """The transports of the box."""
        return tuple(each for each in self.transports if each in BOXES)

    def network_bytes(self, network: Network) -> int:
        """Return the bytes of a network's parameters; a short run takes a hundredth of them."""
        return network.bytes // 100 // 64 * 64 if self.quick else network.bytes

    def compute_seconds(self, network: Network) -> float:
        """Return the computation of one step; a short run takes a tenth of it."""
        return network.compute_ms / 1e3 / (10 if self.quick else 1)

    def segment_bytes(self, share: float) -> int:
        """Return the bytes of a segment, when the test takes `share` segments at a time."""
        wanted = QUICK_BYTES if self.quick else SEGMENT_BYTES
        return max(min(wanted, int(self.available / share)) // MIB * MIB, MIB)


MEMORY_RATE = 4e9
"""Bytes per second of all processes together, for the expected time alone."""
TURN_SECONDS = 1.0
"""Of starting and ending a turn."""


def expected_seconds(plan: BoxPlan) -> float:
    """Estimate the time of a run on two processors."""
    turns = plan.rounds * len(plan.boxes)
    moving = 2 * (TURN_SECONDS + 24 * plan.segment_bytes(4.0) / MEMORY_RATE)
    seconds = {
        LATENCY: 0.0,
        ACCUMULATE: 3.0 * turns,
        PUBLISH: 15.0 * plan.rounds,
        BANDWIDTH: turns * sum(moving + number / 8 for number in plan.processes),
        EMULATION: sum(
            _emulation_seconds(plan, network, workers)
            for network in plan.networks
            for workers in plan.workers
        ),
    }
    return sum(seconds[test] for test in plan.tests) + 5 * plan.quick


def _emulation_seconds(plan: BoxPlan, network: Network, workers: int) -> float:
    moving = 3.5 * workers * plan.network_bytes(network) / MEMORY_RATE
    step = max(plan.compute_seconds(network), moving / 1.5)
    turn = TURN_SECONDS + moving + (plan.steps + WARM_UP_STEPS) * step
    return min(turn * ((plan.rounds + 1) * len(plan.transports) + 2), plan.network_seconds)


def workers(text: str) -> tuple[int, ...]:
    """Convert a list of numbers of workers with commas, and drop repeated ones."""
    found = tuple(dict.fromkeys(count(part) for part in text.split(",") if part))
    for number in found:
        if not 2 <= number <= MOST_WORKERS:
            raise argparse.ArgumentTypeError(f"{number} workers; use 2 to {MOST_WORKERS}")
    if not found:
        raise argparse.ArgumentTypeError("no number of workers; use 2 to 32, as 2,8,32")
    return found


def plan_of(arguments: argparse.Namespace) -> BoxPlan:
    """Make every choice.

    Raises
    ------
    InvalidArgument
        If the tests measure none of the transports.
    """
    quick = bool(arguments.quick)
    given = arguments.rounds
    tests = tuple(test for test in TESTS if test in arguments.test)
    transports = tuple(each for each in TRANSPORTS if each in arguments.transport)
    if EMULATION not in tests and not {*BOXES} & {*transports}:
        raise InvalidArgument(
            f"bench box: only --test {EMULATION} measures {' and '.join(transports)}; add it, or"
            f" --transport {BOX_SHM}"
        )
    openmpi, why_not = None, ""
    if EMULATION in tests and {MPI, MPI_SHARED} & {*transports}:
        try:
            openmpi = find()
        except NotFound as error:
            why_not = str(error)
    return BoxPlan(
        tests=tests,
        transports=transports,
        networks=tuple(NETWORKS[key] for key in dict.fromkeys(arguments.model)),
        workers=arguments.workers or ((2,) if quick else WORKERS),
        processes=arguments.workers or ((2,) if quick else PROCESSES),
        rounds=given or (QUICK_ROUNDS if quick else ROUNDS),
        steps=arguments.steps,
        quick=quick,
        available=max(memory_available() - SPARE_BYTES, 0),
        network_seconds=math.inf if given else NETWORK_SECONDS,
        openmpi=openmpi,
        why_no_mpi=why_not,
    )
