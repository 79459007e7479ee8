"""A task's place in its cluster, and the settings that both sides of a comparison share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from farwrite_bench.cluster.transport import Transport


@dataclass(frozen=True)
class Threads:
    """TensorFlow's settings that limit the speed of a step; 0 leaves the choice to TensorFlow."""

    intra_op: int = 0
    inter_op: int = 0
    channels: int = 0
    """gRPC connections to each peer (num_channels_per_target)."""


@dataclass(frozen=True)
class Seat:
    """A server's place in its cluster."""

    cluster: Mapping[str, Sequence[str]]
    """The addresses of each job."""
    job: str
    index: int
    transport: Transport
    threads: Threads

    @property
    def task(self) -> str:
        """The task's name."""
        return f"{self.job}:{self.index}"


@dataclass(frozen=True)
class Look:
    """A request for readings."""

    memory: bool = False


def config(tf: Any, threads: Threads) -> Any:
    """Make the ConfigProto with these settings."""
    options = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads.intra_op, inter_op_parallelism_threads=threads.inter_op
    )
    options.rpc_options.num_channels_per_target = threads.channels
    return options


def start_server(tf: Any, seat: Seat) -> Any:
    """Start the server of a seat in this process."""
    return tf.distribute.Server(
        tf.train.ClusterSpec({job: list(tasks) for job, tasks in seat.cluster.items()}),
        job_name=seat.job,
        task_index=seat.index,
        protocol=seat.transport.protocol,
        config=config(tf, seat.threads),
        start=True,
    )
