"""The models, jobs and settings of a training, and the messages of the coordinator."""

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
"""The loss of every fifth step is fetched; fetching is not part of a step's time."""
SEED = 20

# On two cores, in several rounds, stock gRPC was fastest with one compute thread per operation and
# four gRPC channels per peer. Both transports have these settings.
THREADS = Threads(intra_op=1, inter_op=4, channels=4)


@dataclass(frozen=True)
class Model:
    """A multi-layer perceptron, named by its widths."""

    widths: tuple[int, ...]

    @property
    def name(self) -> str:
        """The widths, such as "64-128-10"."""
        return "-".join(map(str, self.widths))

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return sum(inputs * outputs + outputs for inputs, outputs in pairwise(self.widths))

    @property
    def bytes(self) -> int:
        """The bytes of the parameters as float32."""
        return 4 * self.parameters

    @property
    def tensors(self) -> int:
        """The number of variables: a matrix and a bias for each layer."""
        return 2 * (len(self.widths) - 1)


LARGE = Model((64, 2048, 2048, 2048, 10))
SMALL = Model((64, 128, 10))


@dataclass(frozen=True)
class Job:
    """One training run."""

    model: Model
    steps: int
    """Measured steps; `warm_up` more run before them."""
    learning_rate: float
    """The rate at the start; it falls linearly to 0 at the end."""
    warm_up: int = 8
    synchronous: bool = False
    """Each step applies the mean of the gradients of both workers, so that the weights repeat bit
    for bit. Otherwise no worker waits for the other, as is usual with parameter servers."""

    batch: int = BATCH

    @property
    def tensor_bytes_per_step(self) -> int:
        """Bytes of tensors between tasks: the parameters that are read, and the gradients."""
        return 2 * self.model.bytes * (WORKERS if self.synchronous else 1)

    @property
    def tensors_per_step(self) -> int:
        """The number of these tensors."""
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
    """The first message to the coordinator."""

    cluster: Mapping[str, Sequence[str]]
    transport: Transport
    threads: Threads


@dataclass(frozen=True)
class Progress:
    """Message of the coordinator during a job: the number of completed steps."""

    steps: int


@dataclass(frozen=True)
class Mark:
    """Message of the coordinator before and after the measured steps; it waits for an answer."""

    readings: Readings


@dataclass(frozen=True)
class Outcome:
    """Message of the coordinator at the end of a job."""

    step_ms: list[float]
    """The time of every measured step, in the order in which they ended."""
    seconds: float
    """From the start of the first measured step to the end of the last."""
    loss: list[tuple[float, int, float]]
    """Seconds, step, and that step's loss over its batch."""
    final_loss: float
    """The loss over all training images with the final weights."""
    test_accuracy: float
    weights_sha256: str


@dataclass(frozen=True)
class Run:
    """One job over one transport, with its outcome and its readings."""

    job: Job
    transport: Transport
    outcome: Outcome
    before: list[Readings] = field(default_factory=list)
    after: list[Readings] = field(default_factory=list)
