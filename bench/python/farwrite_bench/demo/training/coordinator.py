"""The coordinator's process, as a `ForkedTask`.

Its first message is an `Order`, and it answers with its readings when it is ready. Every later
message is a `Job`. During a job it sends `Progress` after each step, a `Mark` before and after the
measured steps, and then the `Outcome`. It trains as a user's program does, with
ParameterServerStrategy and a ClusterCoordinator; `rpc_layer` selects the transport.
"""

from __future__ import annotations

import importlib
import queue
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from farwrite_bench.cluster.readings import read
from farwrite_bench.cluster.transport import load_plugin
from farwrite_bench.demo.training.digits import Digits, load
from farwrite_bench.demo.training.network import Trainer, fingerprint, judge
from farwrite_bench.demo.training.plan import (
    LOSS_EVERY,
    WORKERS,
    Job,
    Mark,
    Order,
    Outcome,
    Progress,
)

TASK = "chief:0"


class Coordinator:
    """Trains jobs one after the other on one cluster."""

    def __init__(self, control: Connection, order: Order) -> None:
        load_plugin(order.transport)
        self._control = control
        self._tf: Any = importlib.import_module("tensorflow")
        tf = self._tf
        tf.config.threading.set_intra_op_parallelism_threads(order.threads.intra_op)
        tf.config.threading.set_inter_op_parallelism_threads(order.threads.inter_op)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({job: list(tasks) for job, tasks in order.cluster.items()}),
            task_type="chief",
            task_id=0,
            rpc_layer=order.transport.protocol,
        )
        self._strategy = tf.distribute.ParameterServerStrategy(resolver)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(self._strategy)
        self._digits: Digits = load()

    def train(self, job: Job) -> Outcome:
        """Train `job` from its first step to its last."""
        with self._strategy.scope():
            trainer = Trainer(self._tf, job, self._digits)
        if job.synchronous:
            take_step, lanes = self._synchronous(trainer), 1
        else:
            take_step, lanes = self._scheduled(trainer), WORKERS
        record = _Record(self._control)
        record.run(take_step, range(job.warm_up), lanes)
        self._mark()
        record.start()
        record.run(take_step, range(job.warm_up, job.warm_up + job.steps), lanes)
        seconds = time.perf_counter() - record.started
        self._mark()

        weights = trainer.weights()
        digits = self._digits
        loss, _ = judge(weights, digits.train_images, digits.train_labels)
        _, accuracy = judge(weights, digits.test_images, digits.test_labels)
        return Outcome(record.step_ms, seconds, record.loss, loss, accuracy, fingerprint(weights))

    def _scheduled(self, trainer: Trainer) -> Callable[[int], Any]:
        step = trainer.step()

        def take_step(number: int) -> Any:
            # get() waits until the worker has finished, and does not fetch the loss.
            return self._coordinator.schedule(step, args=(self._tf.constant(number),)).get()

        return take_step

    def _synchronous(self, trainer: Trainer) -> Callable[[int], Any]:
        step = trainer.synchronous_step()
        return lambda number: step(self._tf.constant(number))

    def _mark(self) -> None:
        self._control.send(Mark(read(TASK, memory=True)))
        self._control.recv()


class _Record:
    """Runs steps and records how long each took.

    A step lasts from `schedule()` until its result's `get()` returns. At that time the worker has
    read the weights and computed the gradients, and the parameter server has applied them. There
    are as many lanes as workers. Each lane has one step under way, so no step waits in the queue.
    """

    def __init__(self, control: Connection) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._errors: list[BaseException] = []
        self._taken = 0
        self.start()

    def start(self) -> None:
        """Drop the records, and start the clock."""
        self.step_ms: list[float] = []
        self.loss: list[tuple[float, int, float]] = []
        self.started = time.perf_counter()

    def run(self, take_step: Callable[[int], Any], numbers: range, lanes: int) -> None:
        """Run the steps with these numbers, in order, in `lanes` threads."""
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in numbers:
            waiting.put(number)
        threads = [
            threading.Thread(target=self._lane, args=(take_step, waiting), daemon=True)
            for _ in range(lanes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def _lane(self, take_step: Callable[[int], Any], waiting: queue.SimpleQueue[int]) -> None:
        try:
            while not self._errors:
                number = waiting.get_nowait()
                start = time.perf_counter()
                loss = take_step(number)
                end = time.perf_counter()
                with self._lock:
                    self._taken += 1
                    self.step_ms.append((end - start) * 1e3)
                    self._control.send(Progress(self._taken))
                if number % LOSS_EVERY == 0:
                    value = float(loss)
                    with self._lock:
                        self.loss.append((end - self.started, number, value))
        except queue.Empty:
            return
        except BaseException as error:
            self._errors.append(error)


def main(control: Connection) -> None:
    """Answer the parent until it closes the control pipe."""
    coordinator = Coordinator(control, control.recv())
    control.send(read(TASK))
    while True:
        job: Job = control.recv()
        control.send(coordinator.train(job))
