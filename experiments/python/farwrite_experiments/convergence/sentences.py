"""Sentence embedding: two LSTMs, which give sentences of one meaning the same place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from farwrite_experiments.convergence.data import lines
from farwrite_experiments.convergence.data.data import Data
from farwrite_experiments.convergence.model import AHEAD, Batch, Share, in_order, one_batch
from farwrite_experiments.convergence.recurrent import Cell, lstm
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.gpu_class import RECURRENT_STEP_MS, equivalent
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Layer, Outline, Value, Variable

LONGEST = 40
"""Words of a sentence that are read."""
WIDTH, HIDDEN = 256, 256
TABLE = Variable("words", (lines.WORDS, WIDTH))
ENCODERS = (Cell("first", WIDTH, HIDDEN), Cell("second", WIDTH, HIDDEN))


class Sentences:
    """The model. Its quality is the loss: how surely it finds a sentence's partner among others."""

    variables: Sequence[Variable] = tuple(each for cell in ENCODERS for each in cell.variables)
    tables: Sequence[Variable] = (TABLE,)

    def batches(self, tf: Any, data: Data, batch: int, share: Share, seed: Any) -> Any:
        """Return the dataset of a worker's batches, each as long as its longest sentences."""
        mine = in_order(lines.pairs(tf, data.train), share, seed)
        return self._numbered(tf, data, mine.batch(batch, drop_remainder=True)).prefetch(AHEAD)

    def held_out(self, tf: Any, data: Data) -> Any:
        """Return the dataset of the held-out pairs."""
        return self._numbered(tf, data, one_batch(lines.pairs(tf, data.test))).cache().repeat()

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean cross entropy of finding a sentence's partner in the batch."""
        first, first_lengths, second, second_lengths = batch
        embedded = [
            # Without a limit: these edges are dynamic.
            lstm(tf, cell, reads.value, reads.rows(TABLE, words), lengths).state
            for cell, words, lengths in zip(
                ENCODERS, (first, second), (first_lengths, second_lengths), strict=True
            )
        ]
        logits = tf.matmul(embedded[0], embedded[1], transpose_b=True)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.range(tf.shape(first)[0]), logits=logits
            )
        )

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the loss among all held-out pairs."""
        return self.loss(tf, reads, batch)

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return the length of the batch's first and of its second sentences."""
        return [tf.shape(batch[0])[1], tf.shape(batch[2])[1]]

    def network(self, batch: int, longest: Sequence[float]) -> Network:
        """Return the outline. Of the table, it has the rows that a batch reads."""
        add_to = partial(_add_to, batch=batch, longest=tuple(longest))
        total = sum(longest) * RECURRENT_STEP_MS
        return Network("sentences", "Sentence embedding", (), HIDDEN, 0.0, add_to, batch_ms=total)

    def _numbered(self, tf: Any, data: Data, pairs: Any) -> Any:
        table = lines.table(tf, data.words[0])
        return pairs.map(lambda first, second: _numbers(tf, table, first, second))


def _numbers(tf: Any, table: Any, *sides: Any) -> Batch:
    made: list[Any] = []
    for side in sides:
        made += lines.padded(tf, lines.numbers(tf, table, side, LONGEST), side)
    return tuple(made)


def _add_to(
    net: Outline, value: Value, classes: int, *, batch: int, longest: tuple[float, ...]
) -> list[Value]:
    del value
    for cell, steps in zip(ENCODERS, longest, strict=True):
        rows = Variable(f"{cell.name}/rows", (round(batch * steps), WIDTH))
        taken = equivalent(steps * RECURRENT_STEP_MS)
        net.layers.append(Layer(f"{cell.name} words", (rows,), 0, rows.shape))
        net.layers.append(Layer(cell.name, cell.variables, taken, (HIDDEN,)))
    return [Value((classes,))]
