"""The process that runs the steps of `training_steps`, as a `ForkedTask`."""

from __future__ import annotations

import importlib
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.demo.training.digits import Digits
from farwrite_bench.demo.training.network import Trainer, fingerprint
from farwrite_bench.demo.training.plan import SEED
from farwrite_experiments.training_steps import Begin, Take


def _images(count: int) -> Digits:
    """Make random images, because their content does not change the time of a step."""
    random = np.random.default_rng(SEED)
    images = random.random((count, 64), dtype=np.float32)
    labels = random.integers(0, 10, count, dtype=np.int32)
    return Digits(images, labels, images[:1], labels[:1])


class _Training:
    """A training with its variables on the parameter server and its computation on the worker."""

    def __init__(self, begin: Begin) -> None:
        load_plugin(begin.seat.transport)
        tf: Any = importlib.import_module("tensorflow")
        threads = begin.seat.threads
        tf.config.threading.set_intra_op_parallelism_threads(threads.intra_op)
        tf.config.threading.set_inter_op_parallelism_threads(threads.inter_op)
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({job: list(at) for job, at in begin.seat.cluster.items()}),
            job_name=begin.seat.job,
            task_index=begin.seat.index,
            protocol=begin.seat.transport.protocol,
        )
        self._tf = tf
        with tf.device("/job:ps/task:0"):
            self._trainer = Trainer(tf, begin.job, _images(2 * begin.job.batch))
        self._step = self._trainer.step()
        self._taken = 0

    def take(self, steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            number = self._tf.constant(self._taken)
            start = time.perf_counter()
            with self._tf.device("/job:worker/task:0"):
                loss = self._step(number)
            loss.numpy()
            seconds.append(time.perf_counter() - start)
            self._taken += 1
        return seconds

    def fingerprint(self) -> str:
        return fingerprint(self._trainer.weights())


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    training = _Training(control.recv())
    answer: object = "ready"
    while True:
        control.send(answer)
        order = control.recv()
        answer = training.take(order.steps) if isinstance(order, Take) else training.fingerprint()
