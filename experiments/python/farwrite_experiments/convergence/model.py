"""What a task's model offers: its variables, its batches, its loss and its quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from farwrite_experiments.convergence.data.data import Data
from farwrite_experiments.convergence.weights import Reads
from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Variable

WINDOW = 4096
"""Records among which the next one is drawn. The drawing depends only on the seed."""
HELD_OUT = 512
"""The most samples that the quality is measured with."""
AHEAD = 2
"""Batches that are read while a step runs."""

Batch = tuple[Any, ...]


@dataclass(frozen=True)
class Share:
    """The part of the data that one worker trains with: every n-th record."""

    worker: int
    workers: int


class Model(Protocol):
    """A model that is trained, as TensorFlow's graph and as an outline."""

    variables: Sequence[Variable]
    """Variables that a worker reads as a whole."""
    tables: Sequence[Variable]
    """Matrices of which a worker reads rows."""

    def batches(self, tf: Any, data: Data, batch: int, share: Share, seed: Any) -> Any:
        """Return the dataset of a worker's batches, without end, in the order of `seed`."""

    def held_out(self, tf: Any, data: Data) -> Any:
        """Return the dataset of one batch, which repeats: the samples that nothing trains with."""

    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean loss of a batch."""

    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the quality of the samples that nothing trains with."""

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return the lengths of the sequences of a batch, as the longest line makes them."""

    def network(self, batch: int, longest: Sequence[float]) -> Network:
        """Return the outline for emulated computation, of batches with these mean lengths."""


def in_order(records: Any, share: Share, seed: Any) -> Any:
    """Return a worker's share of the records without end, in another order in each epoch."""
    mine = records.shard(share.workers, share.worker)
    return mine.shuffle(WINDOW, seed=seed, reshuffle_each_iteration=True).repeat()


def one_batch(records: Any) -> Any:
    """Return the first `HELD_OUT` records as one batch."""
    return records.take(HELD_OUT).batch(HELD_OUT)
