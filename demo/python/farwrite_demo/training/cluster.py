"""The cluster of a training: a parameter server, two workers and a coordinator, four processes.

The coordinator trains as a user's program does, with ParameterServerStrategy and a
ClusterCoordinator; `rpc_layer` selects the transport.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import resource
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from farwrite.errors import ResourceExhausted
from farwrite.sockets import socket_bytes
from farwrite_demo.child import Child
from farwrite_demo.training.network import (
    WORKERS,
    Digits,
    Job,
    Trainer,
    fingerprint,
    judge,
    load_digits,
)

GRPC, FARWRITE = "grpc", "farwrite"
PROTOCOLS = {GRPC: "grpc", FARWRITE: "grpc+farwrite"}
"""TensorFlow's name of each transport."""
THREADS = {"intra_op": 1, "inter_op": 4, "channels": 4}
"""On two cores, in several rounds, stock gRPC was fastest with one compute thread per operation and
four gRPC channels per peer. Both transports have these settings."""
ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "GRPC_VERBOSITY": "ERROR",
    "CUDA_VISIBLE_DEVICES": "-1",  # the same work on machines with and without a GPU
    "no_grpc_proxy": "127.0.0.1,localhost",
    "FARWRITE_TF_ALLOCATION": "unified",
    "FARWRITE_TF_CONTROL": "on",
}

Facts = dict[str, Any]
Readings = dict[str, float]
Cluster = Mapping[str, Sequence[str]]
"""The addresses of each job's tasks."""


def coordinate(pipe: Connection, transport: str, jobs: Sequence[Job]) -> None:
    """Start the servers and train `jobs` on them, in the process of the coordinator.

    It sends "ready" when all run. For each job it sends the share of its steps that have ended,
    again and again, and then the figures of the job.
    """
    os.environ.update(ENVIRONMENT)
    tf: Any = importlib.import_module("tensorflow")  # the servers are forked behind it
    ps, chief, *workers = free_addresses(2 + WORKERS)
    cluster = {"ps": [ps], "chief": [chief], "worker": workers}
    seats = [("ps", 0), *(("worker", index) for index in range(WORKERS))]
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                Child(f"{job} {index}", serve, cluster, job, index, transport, start="fork")
            )
            for job, index in seats
        ]
        for server in servers:
            server.receive()
        chief_of = _Coordinator(tf, cluster, transport, servers)
        pipe.send("ready")
        for job in jobs:
            pipe.send(chief_of.train(job, pipe.send))


def serve(pipe: Connection, cluster: Cluster, job: str, index: int, transport: str) -> None:
    """Run a server of `cluster`; every message on `pipe` asks for its readings."""
    tf = _tensorflow(transport)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=THREADS["intra_op"],
        inter_op_parallelism_threads=THREADS["inter_op"],
    )
    config.rpc_options.num_channels_per_target = THREADS["channels"]
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job, index, PROTOCOLS[transport], config
    )
    while True:
        pipe.send(readings())
        pipe.recv()
        assert server is not None


def _tensorflow(transport: str) -> Any:
    if transport == FARWRITE:
        importlib.import_module("farwrite.tensorflow")  # before any use of TensorFlow
    return importlib.import_module("tensorflow")


def readings() -> Readings:
    """Read this process's sockets, processor time, memory, and Farwrite's counters."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    plugin = sys.modules.get("farwrite.tensorflow")
    counters = {} if plugin is None else plugin.stats()
    return {
        "socket_bytes": socket_bytes().sent,  # so that each byte counts once
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_rss": int(status["VmHWM"].split()[0]) * 1024,
        **{name: value for name, value in counters.items() if isinstance(value, int)},
    }


def free_addresses(count: int) -> list[str]:
    """Find free ports among those that the kernel does not assign, as addresses of this machine.

    Any program may be given one of the others before the server listens there. The environment
    variable FARWRITE_BENCH_PORTS names other ones, such as ``20000-20999``.
    """
    first, last = map(int, os.environ.get("FARWRITE_BENCH_PORTS", "16384-32767").split("-"))
    found: list[str] = []
    for port in random.sample(range(first, last + 1), last + 1 - first):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(f"127.0.0.1:{port}")
        if len(found) == count:
            return found
    raise ResourceExhausted(
        f"demo training: {len(found)} of {count} ports from {first} to {last} are free; end"
        " programs that listen there"
    )


@dataclass
class _Coordinator:
    """Trains jobs one after the other on one cluster."""

    tf: Any
    cluster: Cluster
    transport: str
    servers: Sequence[Child]

    def __post_init__(self) -> None:
        tf = _tensorflow(self.transport)
        tf.config.threading.set_intra_op_parallelism_threads(THREADS["intra_op"])
        tf.config.threading.set_inter_op_parallelism_threads(THREADS["inter_op"])
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(self.cluster),
            task_type="chief",
            task_id=0,
            rpc_layer=PROTOCOLS[self.transport],
        )
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._digits: Digits = load_digits()

    def train(self, job: Job, progress: Callable[[float], None]) -> Facts:
        """Train `job` from its first step to its last, and return its figures.

        A step lasts from `schedule()` until its result's `get()` returns. At that time the worker
        has read the weights and computed the gradients, and the parameter server has applied them.
        There is one thread for each worker, and one step under way in each, so that no step waits.
        """
        with self._strategy.scope():
            trainer = Trainer(self.tf, job, self._digits)
        step = trainer.step()

        def take_step(number: int) -> float:
            start = time.perf_counter()
            argument = self.tf.constant(number)
            if job.synchronous:
                step(argument)
            else:
                self._coordinator.schedule(step, args=(argument,)).get()
            return (time.perf_counter() - start) * 1e3

        def take_steps(numbers: range) -> list[float]:
            taken = []
            with ThreadPoolExecutor(1 if job.synchronous else WORKERS) as pool:
                for number, milliseconds in zip(numbers, pool.map(take_step, numbers), strict=True):
                    taken.append(milliseconds)
                    progress((number + 1) / (job.warm_up + job.steps))
            return taken

        take_steps(range(job.warm_up))
        before = self._look()
        started = time.perf_counter()
        taken = take_steps(range(job.warm_up, job.warm_up + job.steps))
        seconds = time.perf_counter() - started
        after = self._look()
        weights = [variable.numpy() for variable in trainer.variables]
        loss, _ = judge(weights, self._digits.train_images, self._digits.train_labels)
        _, accuracy = judge(weights, self._digits.test_images, self._digits.test_labels)
        return {
            "model": job.model.name,
            "parameters": job.model.parameters,
            "transport": self.transport,
            "synchronous": job.synchronous,
            "steps": job.steps,
            "step_ms": {
                "median": round(float(np.median(taken)), 3),
                "p90": round(float(np.percentile(taken, 90)), 3),
            },
            "final_loss": loss,
            "test_accuracy": accuracy,
            **self._spent(job, before, after),
            "seconds": round(seconds, 3),
            "ps_peak_rss_bytes": after[0]["peak_rss"],
            "weights_sha256": fingerprint(weights),
            "all_step_ms": [round(value, 3) for value in taken],
        }

    def _look(self) -> list[Readings]:
        return [*(server.ask("look") for server in self.servers), readings()]

    def _spent(self, job: Job, before: list[Readings], after: list[Readings]) -> Facts:
        total = {
            name: sum(
                last.get(name, 0) - first.get(name, 0)
                for first, last in zip(before, after, strict=True)
            )
            for name in {name for each in after for name in each}
        }
        counted = {n: v for n, v in total.items() if n not in ("cpu_seconds", "peak_rss")}
        ours = self.transport == FARWRITE
        return {
            "socket_bytes_per_step": round(total["socket_bytes"] / job.steps, 1),
            "tensor_bytes_per_step": 2 * 4 * job.model.parameters * job.batches,
            "tensors_per_step": 2 * job.model.tensors * job.batches,
            "copies_per_step": total["copies"] / job.steps if ours else None,
            "grpc_tensor_calls": total["grpc_recv_tensor_calls"] if ours else None,
            "cpu_ms_per_step": round(total["cpu_seconds"] / job.steps * 1e3, 3),
            "farwrite": counted if ours else None,
        }
