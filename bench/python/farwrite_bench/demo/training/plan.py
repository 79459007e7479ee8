"""What is trained, for how long, and with which settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.seat import Threads
from farwrite_bench.cluster.transport import Transport

BATCH = 32
WORKERS = 2
LOSS_EVERY = 5
"""Steps between two losses that are fetched; fetching is not part of a step's time."""
SEED = 20

# Tried on two cores, several rounds each: with one compute thread per operation and four gRPC
# channels per peer, stock gRPC took the fewest milliseconds per step. Both transports get this.
THREADS = Threads(intra_op=1, inter_op=4, channels=4)


@dataclass(frozen=True)
class Model:
    """A multi-layer perceptron, named by its widths."""

    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        """Such as "64-128-10"."""
        return "-".join(map(str, self.widths))

    @property
    def parameters(self) -> int:
        """Count weights and biases."""
        return sum(inputs * outputs + outputs for inputs, outputs in pairwise(self.widths))

    @property
    def bytes(self) -> int:
        """What they take as float32."""
        return 4 * self.parameters

    @property
    def tensors(self) -> int:
        """Count the variables: a matrix and a bias a layer."""
        return 2 * (len(self.widths) - 1)


LARGE = Model((64, 2048, 2048, 2048, 10))
SMALL = Model((64, 128, 10))


@dataclass(frozen=True)
class Job:
    """One training run."""

    model: Model
    steps: int
    """Measured ones; `warm_up` more go before them."""
    learning_rate: float
    """At the start; falls linearly to nothing at the end."""
    warm_up: int = 8
    synchronous: bool = False
    """Both workers take a batch each, and the mean of their gradients is applied once a step.
    Repeats bit for bit. Otherwise each worker goes ahead on its own, as parameter servers do."""

    batch: int = BATCH

    @property
    def tensor_bytes_per_step(self) -> int:
        """Bytes of tensors that cross tasks: parameters read, and gradients sent back."""
        return 2 * self.model.bytes * (WORKERS if self.synchronous else 1)

    @property
    def tensors_per_step(self) -> int:
        """How many tensors that is."""
        return 2 * self.model.tensors * (WORKERS if self.synchronous else 1)


JOBS = (Job(LARGE, 320, 0.05), Job(SMALL, 800, 0.3))
PROOFS = (
    Job(LARGE, 12, 0.05, warm_up=2, synchronous=True),
    Job(SMALL, 50, 0.3, warm_up=2, synchronous=True),
)
"""Short synchronous runs, whose weights must agree bit for bit."""
SYNCHRONOUS_JOBS = (
    Job(LARGE, 160, 0.1, synchronous=True),
    Job(SMALL, 400, 0.3, synchronous=True),
)


@dataclass(frozen=True)
class Order:
    """What the coordinator is told at its start."""

    cluster: Mapping[str, Sequence[str]]
    transport: Transport
    threads: Threads


@dataclass(frozen=True)
class Progress:
    """The coordinator, while it trains."""

    steps: int


@dataclass(frozen=True)
class Mark:
    """The coordinator, at the start and at the end of what is measured; it waits for an answer."""

    readings: Readings


@dataclass(frozen=True)
class Outcome:
    """The coordinator, once a job is done."""

    step_ms: list[float]
    """Of every measured step, in the order in which they ended."""
    seconds: float
    """From the start of the first measured step to the end of the last."""
    loss: list[tuple[float, int, float]]
    """Seconds, step, and that step's loss over its batch."""
    final_loss: float
    """Over all training images, with the final weights."""
    test_accuracy: float
    weights_sha256: str


@dataclass(frozen=True)
class Run:
    """One job over one transport, with everything that was seen."""

    job: Job
    transport: Transport
    outcome: Outcome
    before: list[Readings] = field(default_factory=list)
    after: list[Readings] = field(default_factory=list)
