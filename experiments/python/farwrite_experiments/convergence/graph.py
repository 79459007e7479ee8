"""What a worker of ``bench convergence`` does: the first one trains, the others run servers."""

from __future__ import annotations

import importlib
import time
from typing import Any

from farwrite_bench.cluster.seat import Seat, start_server
from farwrite_bench.cluster.transport import FARWRITE
from farwrite_bench.tensor.graph import session_config
from farwrite_experiments.convergence.model import Batch
from farwrite_experiments.convergence.plan import Block, Job
from farwrite_experiments.convergence.weights import Bound, Reads, Weights
from farwrite_experiments.library import load
from farwrite_experiments.train.graph import SEED


class Trainer:
    """After `open`, a session that takes the steps of all workers together.

    It applies the mean of their gradients.
    """

    def __init__(self, tf: Any, seat: Seat, _mirrored: bool) -> None:
        load()  # before a peer's graph needs its operations
        self._tf, self._server = tf, start_server(tf, seat)
        self._bound: Bound | None = None
        if seat.transport.protocol == FARWRITE.protocol:
            self._bound = importlib.import_module("farwrite.tensorflow").bound_shape

    def open(self, job: Job) -> None:
        """Build the graph of a job."""
        tf, model = self._tf, job.model
        with tf.Graph().as_default() as graph:
            tf.compat.v1.random.set_random_seed(SEED)
            with tf.device("/job:worker/task:0"):
                self._seed = tf.compat.v1.placeholder(tf.int64, [])
            weights = Weights(
                tf, model.variables, model.tables, model.rate, job.servers, self._seed
            )
            begin, inputs, losses, whole, of_rows = [], [], [], [], []
            for worker in range(job.workers):
                with tf.device(f"/job:worker/task:{worker}"):
                    batches = model.batches(tf, job.data, worker, job.workers, self._seed)
                    first, batch = _iterated(tf, batches)
                    reads = Reads(weights, self._bound)
                    loss = model.loss(tf, reads, batch)
                    gradients, rows = reads.gradients(tf, loss, model.variables, job.workers)
                begin.append(first)
                inputs.append(batch)
                losses.append(loss)
                whole.append(gradients)
                of_rows += rows
            with tf.device("/job:worker/task:0"):
                first, held_out = _iterated(tf, model.held_out(tf, job.data))
                begin.append(first)
                self._quality = model.quality(tf, Reads(weights, None), held_out)
            updates = [
                weights.update(variable, [gradients[variable] for gradients in whole])
                for variable in model.variables
            ]
            for table in model.tables:
                read = [(each.numbers, each.rows) for each in of_rows if each.table == table]
                updates.append(weights.update_rows(table, *zip(*read, strict=True)))
            step = tf.group(updates)
            self._create = [tf.compat.v1.tables_initializer(), *weights.create]
            self._begin, self._checksums = begin, weights.checksums
            longest = model.longest(tf, inputs[0])
        config = session_config(tf)
        self._session = tf.compat.v1.Session(self._server.target, graph=graph, config=config)
        self._step = self._session.make_callable([losses, longest, step])

    def begin(self, seed: int) -> None:
        """Give the variables their first values, and go to the first batch."""
        given = {self._seed: seed}
        self._session.run(self._create, given)
        self._session.run(self._begin, given)

    def take(self, count: int) -> Block:
        """Take steps."""
        made = Block([], [], [])
        for _ in range(count):
            start = time.perf_counter()
            losses, lengths, _ = self._step()
            made.seconds.append(time.perf_counter() - start)
            made.losses.append(sum(map(float, losses)) / len(losses))
            made.longest.append([int(each) for each in lengths])
        return made

    def quality(self) -> float:
        """Measure the quality with the held-out samples."""
        return float(self._session.run(self._quality))

    def checksums(self) -> list[int]:
        """Return the sum over the bits of each variable."""
        return [int(value) for value in self._session.run(self._checksums)]


def _iterated(tf: Any, dataset: Any) -> tuple[Any, Batch]:
    """Return the operation that begins with the first batch, and the next batch."""
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset.with_options(options))
    return iterator.initializer, iterator.get_next()
