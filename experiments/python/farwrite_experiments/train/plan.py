"""What one run of ``bench train`` measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED, Transport
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.networks.network import NETWORKS, Network
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.pace import Pace
from farwrite_experiments.train.variables import Optimizer

REAL, EMULATED = "real", "emulated"
DATA, MODEL, MIRRORED = "data", "model", "mirrored"
"""Parallelism: every worker has all layers and servers have the variables; two workers have half
of the layers and variables each; every worker has all variables, and gradients are reduced by
MultiWorkerMirroredStrategy."""
MODES = (DATA, MODEL, MIRRORED)
FABRICS = ("shm", "tcp")
TRANSPORTS = {each.key: each for each in (GRPC, RPC_OVER_FABRIC, STAGED, FARWRITE, LOCAL)}
"""The transports by key. All but `GRPC` and `LOCAL` run over each fabric."""


@dataclass(frozen=True)
class Layout:
    """The processes of a way."""

    servers: int
    workers: int
    mirrored: bool = False
    """Whether the workers share a MultiWorkerMirroredStrategy."""


@dataclass(frozen=True)
class Case:
    """What all transports run in turn."""

    model: str
    compute: str
    batch: int
    servers: int = 1
    workers: int = 2
    sync: bool = True
    mode: str = DATA
    other: Network | None = None
    """The network, where `model` is none of the papers'."""
    optimizer: Optimizer | None = None
    """None: Adagrad for the MNIST network, gradient descent for the others."""

    @property
    def network(self) -> Network:
        """The network."""
        return NETWORKS[self.model] if self.other is None else self.other

    @property
    def layout(self) -> Layout:
        """The processes that it needs."""
        servers = self.servers if self.mode == DATA else 0
        return Layout(servers, self.workers, self.mode == MIRRORED)

    @property
    def compute_ms(self) -> float | None:
        """The emulated computation of a step in one worker; None for a real one."""
        if self.compute != EMULATED:
            return None
        return self.network.batch_ms + self.batch * self.network.compute_ms

    @property
    def samples(self) -> int:
        """The samples of a step, of all workers that take it together or at the same time."""
        return self.batch * (1 if self.mode == MODEL else self.workers)


@dataclass(frozen=True)
class Way:
    """A transport over a fabric."""

    transport: Transport
    fabric: str | None = None
    """None where the transport has no choice."""

    @property
    def key(self) -> str:
        """The name in tables and messages."""
        return " ".join(filter(None, (self.transport.key, self.fabric)))

    @property
    def is_local(self) -> bool:
        """Whether all tasks are one process."""
        return self.transport.key == LOCAL.key


STOCK, ONE_PROCESS = Way(GRPC), Way(LOCAL)


def ways(transports: Sequence[str], fabrics: Sequence[str] | None = None) -> list[Way]:
    """Return the ways of these transports. What communication is compared with is always one.

    Without `fabrics` it is shm for all, and tcp for Farwrite.
    """
    found = [ONE_PROCESS]
    for key, transport in TRANSPORTS.items():
        if key in transports and key != LOCAL.key:
            default = FABRICS if key == FARWRITE.key else FABRICS[:1]
            over = [None] if key == GRPC.key else fabrics or default
            found += [Way(transport, fabric) for fabric in over]
    return found


@dataclass(frozen=True)
class Group:
    """A case, and ways whose processes are alive at once. `STOCK` and `ONE_PROCESS` take part."""

    case: Case
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class TrainPlan:
    """A whole run."""

    groups: tuple[Group, ...]
    pace: Pace
    settings: dict[str, Any] = field(default_factory=dict)
    """What its file names."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Those that an interrupted run has measured of it."""
