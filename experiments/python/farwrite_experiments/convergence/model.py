"""What a task trains: its model, its batches, and the quality that it must reach."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from farwrite_experiments.convergence.data.choose import Data
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


class Model(ABC):
    """A task: what is trained, as TensorFlow's graph and as an outline."""

    key: str
    name: str
    batch: int
    """Samples of a worker's step."""
    rate: float
    """Adam's learning rate."""
    measure: str
    """What the quality is."""
    more_is_better = False
    target: float
    """The quality to reach with generated data, or with scikit-learn's digits."""
    targets: Mapping[str, float]
    """The quality to reach with data of the user, by its format."""
    variables: Sequence[Variable]
    """Variables that a worker reads as a whole."""
    tables: Sequence[Variable] = ()
    """Matrices of which a worker reads rows."""

    def reached(self, quality: float, target: float) -> bool:
        """Whether a quality is as good as the target."""
        return quality >= target if self.more_is_better else quality <= target

    def batches(self, tf: Any, data: Data, worker: int, workers: int, seed: Any) -> Any:
        """Return the dataset of the batches of one of the workers, without end.

        It trains with every n-th record, in another order in each epoch, by `seed`.
        """
        mine = self.records(tf, data, data.train).shard(workers, worker)
        mine = mine.shuffle(WINDOW, seed=seed, reshuffle_each_iteration=True).repeat()
        return self.decoded(tf, data, mine.batch(self.batch, drop_remainder=True)).prefetch(AHEAD)

    def held_out(self, tf: Any, data: Data) -> Any:
        """Return the dataset of one batch, which repeats: the samples that nothing trains with."""
        records = self.records(tf, data, data.test).take(HELD_OUT).batch(HELD_OUT)
        return self.decoded(tf, data, records).cache().repeat()

    @abstractmethod
    def records(self, tf: Any, data: Data, files: Sequence[str]) -> Any:
        """Return the dataset of the records of files."""

    @abstractmethod
    def decoded(self, tf: Any, data: Data, batches: Any) -> Any:
        """Return the dataset of what the model reads of batches of records."""

    @abstractmethod
    def loss(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the mean loss of a batch."""

    @abstractmethod
    def quality(self, tf: Any, reads: Reads, batch: Batch) -> Any:
        """Build the quality of the samples that nothing trains with."""

    def longest(self, tf: Any, batch: Batch) -> list[Any]:
        """Return the lengths of the sequences of a batch, as the longest line makes them."""
        return []

    @abstractmethod
    def network(self, longest: Sequence[float]) -> Network:
        """Return the outline for emulated computation, of batches with these mean lengths."""
