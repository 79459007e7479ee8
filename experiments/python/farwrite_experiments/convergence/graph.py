"""The graph of a job, and the session that takes its steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from farwrite_bench.tensor.graph import session_config
from farwrite_experiments.convergence.model import Batch, Share
from farwrite_experiments.convergence.plan import Block, Job
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.convergence.weights import Bound, Reads, Weights
from farwrite_experiments.train.graph import SEED
from farwrite_experiments.train.optimizers import Adagrad, Adam

TABLE_RATE = 0.2
"""Adagrad's learning rate of the tables, whose rows are read seldom."""


class Training:
    """A session that takes the steps of all workers together, with the mean of their gradients.

    Parameters
    ----------
    tf : module
        TensorFlow.
    job : Job
        What to build.
    target : str
        The session's target: the first worker.
    bound : callable, optional
        Declares largest shapes to the plug-in; None without it.
    """

    def __init__(self, tf: Any, job: Job, target: str, bound: Bound | None) -> None:
        self._task = task = TASKS[job.task]
        model = task.model
        with tf.Graph().as_default() as graph:
            tf.compat.v1.random.set_random_seed(SEED)
            with tf.device("/job:worker/task:0"):
                self._seed = tf.compat.v1.placeholder(tf.int64, [])
            weights = Weights(
                *(tf, model.variables, model.tables, Adam(task.rate), Adagrad(TABLE_RATE)),
                *(job.servers, self._seed),
            )
            begin = []
            towers = []
            for worker in range(job.workers):
                with tf.device(f"/job:worker/task:{worker}"):
                    share = Share(worker, job.workers)
                    batches = model.batches(tf, job.data, task.batch, share, self._seed)
                    first, batch = _iterated(tf, batches)
                    begin.append(first)
                    towers.append(_Tower(tf, job, weights, batch, bound))
            with tf.device("/job:worker/task:0"):
                first, held_out = _iterated(tf, model.held_out(tf, job.data))
                begin.append(first)
                self._quality = model.quality(tf, Reads(weights, None), held_out)
            updates = [
                weights.update(variable, [tower.gradients[variable] for tower in towers])
                for variable in model.variables
            ]
            for table in model.tables:
                read = [each for tower in towers for each in tower.of_table(table)]
                numbers, rows = zip(*read, strict=True)
                updates.append(weights.update_rows(table, numbers, rows))
            step = tf.group(updates)
            self._create = [tf.compat.v1.tables_initializer(), *weights.create()]
            self._begin = begin
            self._checksums = weights.checksums()
            losses = [tower.loss for tower in towers]
            longest = model.longest(tf, towers[0].batch)
        self._session = tf.compat.v1.Session(target, graph=graph, config=session_config(tf))
        self._step: Callable[[], Any] = self._session.make_callable([losses, longest, step])

    def begin(self, seed: int) -> None:
        """Give the variables their first values, and go to the first batch."""
        given = {self._seed: seed}
        self._session.run(self._create, given)
        self._session.run(self._begin, given)

    def take(self, count: int) -> Block:
        """Take steps."""
        seconds, losses, longest = [], [], []
        for _ in range(count):
            start = time.perf_counter()
            of_workers, lengths, _ = self._step()
            seconds.append(time.perf_counter() - start)
            losses.append(sum(map(float, of_workers)) / len(of_workers))
            longest.append([int(each) for each in lengths])
        return Block(seconds, losses, longest)

    def quality(self) -> float:
        """Measure the quality with the held-out samples."""
        return float(self._session.run(self._quality))

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return [int(value) for value in self._session.run(self._checksums)]


class _Tower:
    """The passes of one worker, on the device of the current scope."""

    def __init__(
        self, tf: Any, job: Job, weights: Weights, batch: Batch, bound: Bound | None
    ) -> None:
        self.batch = batch
        reads = Reads(weights, bound)
        self.loss = TASKS[job.task].model.loss(tf, reads, batch)
        whole = TASKS[job.task].model.variables
        values = [*map(reads.value, whole), *(each.rows for each in reads.lookups)]
        # The gradient of the loss is a scalar: the mean over workers costs no other pass.
        share = tf.constant(1.0 / job.workers)
        found = tf.compat.v1.gradients(self.loss, values, grad_ys=share)
        self.gradients = dict(zip(whole, found, strict=False))
        self._rows = [
            (each, reads.bounded(each, gradient))
            for each, gradient in zip(reads.lookups, found[len(whole) :], strict=True)
        ]

    def of_table(self, table: Any) -> list[tuple[Any, Any]]:
        """Return the numbers of the rows of a table that it read, and their gradients."""
        return [(each.numbers, rows) for each, rows in self._rows if each.table == table]


def _iterated(tf: Any, dataset: Any) -> tuple[Any, Batch]:
    """Return the operation that begins with the first batch, and the next batch."""
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset.with_options(options))
    return iterator.initializer, iterator.get_next()
