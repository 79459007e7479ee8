"""The tasks with text: sequence to sequence, and sentence embedding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from farwrite_experiments.convergence.data import lines
from farwrite_experiments.convergence.data.choose import LINES, SENTENCES, SEQ2SEQ, Data
from farwrite_experiments.convergence.model import Batch, Model
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.gpu_class import RECURRENT_STEP_MS, equivalent, milliseconds
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Layer, Outline, Value, Variable

LONGEST = 40
"""Words of a sentence that are read. With the end of a translation it is one more."""
WIDTH, HIDDEN = 256, 256
FORGET = 1.0
"""What is added to the forget gate, so that a new cell keeps its memory."""
SOURCE, TARGET, WORDS = (
    Variable(name, (lines.WORDS, WIDTH)) for name in ("source", "target", "words")
)
OUT, OFFSET = Variable("out/w", (HIDDEN, lines.WORDS)), Variable("out/b", (lines.WORDS,))


Cell = tuple[Variable, Variable, Variable]
"""The matrices of the inputs and of the state of an LSTM, and the offset; the gates share each."""


def _cell(name: str) -> Cell:
    return (
        Variable(f"{name}/wx", (WIDTH, 4 * HIDDEN)),
        Variable(f"{name}/wh", (HIDDEN, 4 * HIDDEN)),
        Variable(f"{name}/b", (4 * HIDDEN,)),
    )


ENCODER, DECODER, FIRST, SECOND = map(_cell, ("encoder", "decoder", "first", "second"))


def lstm(
    tf: Any, cell: Cell, reads: Reads, inputs: Any, lengths: Any, first: Sequence[Any] = ()
) -> tuple[Any, Any, Any]:
    """Build an LSTM over sequences of different lengths, as a loop.

    Parameters
    ----------
    inputs : Tensor
        Of shape (batch, longest, `WIDTH`). `longest` may differ from step to step.
    lengths : Tensor
        The words of each line. Behind them, the state stays as it is.
    first : sequence of Tensor
        The first state and memory, (batch, hidden) each; zero without it.

    Returns
    -------
    tuple
        The outputs, (longest, batch, hidden). The state and the memory behind the last word of each
        line, (batch, hidden) each.
    """
    count, longest = tf.shape(inputs)[0], tf.shape(inputs)[1]
    batch = inputs.shape[0]  # None if it differs from step to step
    of_input, of_state, offset = map(reads.value, cell)
    # All inputs at once: only the state's matrix is needed in the loop.
    flat = tf.reshape(tf.transpose(inputs, [1, 0, 2]), [-1, WIDTH])
    given = tf.reshape(tf.matmul(flat, of_input) + offset, [longest, count, 4 * HIDDEN])
    shape = [batch, HIDDEN]
    by_time = tf.TensorArray(tf.float32, longest, element_shape=[batch, 4 * HIDDEN])
    by_time = by_time.unstack(given)
    outputs = tf.TensorArray(tf.float32, longest, element_shape=shape)
    zero = tf.zeros([count, HIDDEN])
    zero.set_shape(shape)

    def step(number: Any, state: Any, memory: Any, outputs: Any) -> tuple[Any, ...]:
        gates = by_time.read(number) + tf.matmul(state, of_state)
        taken, kept, shown, new = tf.split(gates, 4, axis=-1)
        later = tf.sigmoid(kept + FORGET) * memory + tf.sigmoid(taken) * tf.tanh(new)
        output = tf.sigmoid(shown) * tf.tanh(later)
        lives = tf.expand_dims(number < lengths, 1)
        state, memory = tf.where(lives, output, state), tf.where(lives, later, memory)
        return number + 1, state, memory, outputs.write(number, state)

    _, state, memory, outputs = tf.while_loop(
        lambda number, *_: number < longest,
        step,
        (tf.constant(0), *(first or (zero, zero)), outputs),
        maximum_iterations=longest,
    )
    stacked = outputs.stack()
    stacked.set_shape([None, *shape])
    return stacked, state, memory


class Text(Model):
    """A task that reads pairs of lines, with an LSTM for each side."""

    cells: tuple[Cell, Cell]
    output: tuple[Variable, ...] = ()
    """The variables of a layer behind the second LSTM."""

    def records(self, tf: Any, data: Data, files: Sequence[str]) -> Any:
        """Return the dataset of the pairs of lines."""
        return lines.pairs(tf, files)

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return the length of the batch's first and of its second sentences."""
        return [tf.shape(batch[0])[1], tf.shape(batch[2])[1]]

    def network(self, longest: Sequence[float]) -> Network:
        """Return the outline. Of a table, it has the rows that a batch reads."""
        layers = []
        for cell, steps in zip(self.cells, longest, strict=True):
            name, taken = cell[0].name, equivalent(steps * RECURRENT_STEP_MS)
            rows = Variable(f"{name}/rows", (round(self.batch * steps), WIDTH))
            layers.append(Layer(f"{name} words", (rows,), 0, rows.shape))
            layers.append(Layer(name, cell, taken, (HIDDEN,)))
        total = sum(longest) * RECURRENT_STEP_MS
        if self.output:
            output_ms = milliseconds(self.batch * longest[-1] * OUT.elements)
            layers.append(Layer("out", self.output, equivalent(output_ms), (lines.WORDS,)))
            total += output_ms
        add_to = partial(_add, layers)
        return Network(self.key, self.name, (), HIDDEN, 0.0, add_to, batch_ms=total)


def _add(layers: Sequence[Layer], net: Outline, value: Value, _classes: int) -> list[Value]:
    net.layers.extend(layers)
    return [value]


class Seq2Seq(Text):
    """An LSTM reads a sentence, another one writes its translation.

    The quality is the perplexity: how many words it hesitates between.
    """

    key, name = SEQ2SEQ, "sequence to sequence"
    batch, rate = 16, 3e-3
    measure, target, targets = "perplexity", 12.0, {LINES: 20.0}
    cells, output, tables = (ENCODER, DECODER), (OUT, OFFSET), (SOURCE, TARGET)
    variables = (*ENCODER, *DECODER, *output)

    def decoded(self, tf: Any, data: Data, batches: Any) -> Any:
        """Return the dataset of the numbers of the words, each batch as long as its longest."""
        source, target = (lines.table(tf, file) for file in data.words)

        def decode(first: Any, second: Any) -> Batch:
            sentence, lengths = lines.padded(tf, lines.numbers(tf, source, first, LONGEST), first)
            # The first words are read last: they are near to the first ones that are written.
            backwards = tf.reverse_sequence(sentence, lengths, seq_axis=1)
            translation = lines.numbers(tf, target, second, LONGEST)
            once = tf.ones([tf.shape(second)[0], 1], tf.int32)
            started = tf.concat([lines.START * once, translation], axis=1)
            ended = tf.concat([translation, lines.END * once], axis=1)
            given, given_lengths = lines.padded(tf, started, second)
            return backwards, lengths, given, lines.padded(tf, ended, second)[0], given_lengths

        return batches.map(decode)

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean cross entropy of a word."""
        source, source_lengths, given, wanted, lengths = batch
        read = reads.rows(SOURCE, source, LONGEST)
        _, *thought = lstm(tf, ENCODER, reads, read, source_lengths)
        written = reads.rows(TARGET, given, LONGEST + 1)
        outputs, *_ = lstm(tf, DECODER, reads, written, lengths, thought)
        logits = tf.matmul(tf.reshape(outputs, [-1, HIDDEN]), reads.value(OUT))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.reshape(tf.transpose(wanted), [-1]), logits=logits + reads.value(OFFSET)
        )
        words = tf.cast(tf.reshape(tf.transpose(tf.sequence_mask(lengths)), [-1]), tf.float32)
        return tf.reduce_sum(losses * words) / tf.reduce_sum(words)

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the perplexity."""
        return tf.exp(self.loss(tf, reads, batch))


class Sentences(Text):
    """Two LSTMs, which give sentences of one meaning the same place.

    The quality is the loss: how surely it finds a sentence's partner among others.
    """

    key, name = SENTENCES, "sentence embedding"
    batch, rate = 32, 1e-3
    measure, target, targets = "loss", 1.5, {LINES: 2.0}
    cells, tables = (FIRST, SECOND), (WORDS,)
    variables = (*FIRST, *SECOND)

    def decoded(self, tf: Any, data: Data, batches: Any) -> Any:
        """Return the dataset of the numbers of the words, each batch as long as its longest."""
        table = lines.table(tf, data.words[0])

        def decode(first: Any, second: Any) -> Batch:
            return (
                *lines.padded(tf, lines.numbers(tf, table, first, LONGEST), first),
                *lines.padded(tf, lines.numbers(tf, table, second, LONGEST), second),
            )

        return batches.map(decode)

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean cross entropy of finding a sentence's partner in the batch."""
        # Without a limit of the length: these edges are dynamic.
        first, second = (
            lstm(tf, cell, reads, reads.rows(WORDS, words), lengths)[1]
            for cell, words, lengths in ((FIRST, *batch[:2]), (SECOND, *batch[2:]))
        )
        logits = tf.matmul(first, second, transpose_b=True)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.range(tf.shape(batch[0])[0]), logits=logits
            )
        )

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the loss among all held-out pairs."""
        return self.loss(tf, reads, batch)
