"""Sequence to sequence: an LSTM reads a sentence, another one writes its translation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from farwrite_experiments.convergence.data import lines
from farwrite_experiments.convergence.data.data import Data
from farwrite_experiments.convergence.model import AHEAD, Batch, Share, in_order, one_batch
from farwrite_experiments.convergence.recurrent import Cell, lstm
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.gpu_class import RECURRENT_STEP_MS, equivalent, milliseconds
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Layer, Outline, Value, Variable

LONGEST = 40
"""Words of a sentence that are read. With the end of a translation it is one more."""
WIDTH, HIDDEN = 256, 256
SOURCE = Variable("source", (lines.WORDS, WIDTH))
TARGET = Variable("target", (lines.WORDS, WIDTH))
ENCODER, DECODER = Cell("encoder", WIDTH, HIDDEN), Cell("decoder", WIDTH, HIDDEN)
OUT = Variable("out/w", (HIDDEN, lines.WORDS))
OFFSET = Variable("out/b", (lines.WORDS,))


class Seq2Seq:
    """The model. Its quality is the perplexity: how many words it hesitates between."""

    variables: Sequence[Variable] = (*ENCODER.variables, *DECODER.variables, OUT, OFFSET)
    tables: Sequence[Variable] = (SOURCE, TARGET)

    def batches(self, tf: Any, data: Data, batch: int, share: Share, seed: Any) -> Any:
        """Return the dataset of a worker's batches, each as long as its longest sentence."""
        mine = in_order(lines.pairs(tf, data.train), share, seed)
        return self._numbered(tf, data, mine.batch(batch, drop_remainder=True)).prefetch(AHEAD)

    def held_out(self, tf: Any, data: Data) -> Any:
        """Return the dataset of the held-out pairs."""
        return self._numbered(tf, data, one_batch(lines.pairs(tf, data.test))).cache().repeat()

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean cross entropy of a word."""
        source, source_lengths, given, wanted, lengths = batch
        read = reads.value
        heard = lstm(tf, ENCODER, read, reads.rows(SOURCE, source, LONGEST), source_lengths)
        told = lstm(
            tf,
            DECODER,
            read,
            reads.rows(TARGET, given, LONGEST + 1),
            lengths,
            (heard.state, heard.memory),
        )
        logits = tf.matmul(tf.reshape(told.outputs, [-1, HIDDEN]), read(OUT)) + read(OFFSET)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(tf.transpose(wanted), [-1]), logits=logits
        )
        words = tf.cast(tf.reshape(tf.transpose(tf.sequence_mask(lengths)), [-1]), tf.float32)
        return tf.reduce_sum(losses * words) / tf.reduce_sum(words)

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the perplexity."""
        return tf.exp(self.loss(tf, reads, batch))

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return the length of the batch's sentences and of its translations."""
        return [tf.shape(batch[0])[1], tf.shape(batch[2])[1]]

    def network(self, batch: int, longest: Sequence[float]) -> Network:
        """Return the outline. Of a table, it has the rows that a batch reads."""
        source, target = longest
        output_ms = milliseconds(batch * target * OUT.elements)
        add_to = partial(_add_to, batch=batch, source=source, target=target, output_ms=output_ms)
        total = (source + target) * RECURRENT_STEP_MS + output_ms
        return Network("seq2seq", "Seq2Seq", (), lines.WORDS, 0.0, add_to, batch_ms=total)

    def _numbered(self, tf: Any, data: Data, pairs: Any) -> Any:
        source, target = (lines.table(tf, file) for file in data.words)
        return pairs.map(lambda first, second: _numbers(tf, source, target, first, second))


def _numbers(tf: Any, source: Any, target: Any, first: Any, second: Any) -> Batch:
    sentence, lengths = lines.padded(tf, lines.numbers(tf, source, first, LONGEST), first)
    # The first words are read last, so that they are near to the first ones that are written.
    backwards = tf.reverse_sequence(sentence, lengths, seq_axis=1)
    translation = lines.numbers(tf, target, second, LONGEST)
    once = tf.ones([tf.shape(second)[0], 1], tf.int32)
    given, given_lengths = lines.padded(
        tf, tf.concat([lines.START * once, translation], axis=1), second
    )
    wanted, _ = lines.padded(tf, tf.concat([translation, lines.END * once], axis=1), second)
    return backwards, lengths, given, wanted, given_lengths


def _add_to(
    net: Outline,
    value: Value,
    classes: int,
    *,
    batch: int,
    source: float,
    target: float,
    output_ms: float,
) -> list[Value]:
    del value
    for table, cell, steps in ((SOURCE, ENCODER, source), (TARGET, DECODER, target)):
        rows = Variable(f"{table.name}/rows", (round(batch * steps), WIDTH))
        taken = equivalent(steps * RECURRENT_STEP_MS)
        net.layers.append(Layer(table.name, (rows,), 0, rows.shape))
        net.layers.append(Layer(cell.name, cell.variables, taken, (HIDDEN,)))
    net.layers.append(Layer("out", (OUT, OFFSET), equivalent(output_ms), (classes,)))
    return [Value((classes,))]
