"""The three tasks: their models, batches, rates, and the quality that each must reach."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_experiments.convergence.data.choose import IMAGES, SENTENCES, SEQ2SEQ
from farwrite_experiments.convergence.data.data import CIFAR10, LINES, MNIST_IDX, Data
from farwrite_experiments.convergence.images import Images
from farwrite_experiments.convergence.model import Model
from farwrite_experiments.convergence.sentences import Sentences
from farwrite_experiments.convergence.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Task:
    """A task."""

    key: str
    name: str
    model: Model
    batch: int
    """Samples of a worker's step."""
    rate: float
    """Adam's learning rate."""
    measure: str
    """What the quality is."""
    more_is_better: bool
    target: float
    """The quality to reach with generated data, or with scikit-learn's digits."""
    targets: dict[str, float]
    """The quality to reach with data of the user, by its format."""
    block: int
    """Steps between two measures of the quality."""
    limit: int
    """The most steps with generated data."""

    def reached(self, quality: float, target: float) -> bool:
        """Whether a quality is as good as the target."""
        return quality >= target if self.more_is_better else quality <= target

    def target_of(self, data: Data, *, named: bool) -> float:
        """Return the quality to reach; `named` data is the user's."""
        return self.targets[data.format] if named else self.target


TASKS = {
    each.key: each
    for each in (
        Task(
            IMAGES,
            "image recognition",
            Images(),
            batch=32,
            rate=1e-3,
            measure="accuracy",
            more_is_better=True,
            target=0.98,
            targets={CIFAR10: 0.6, MNIST_IDX: 0.98},
            block=10,
            limit=400,
        ),
        Task(
            SEQ2SEQ,
            "sequence to sequence",
            Seq2Seq(),
            batch=16,
            rate=3e-3,
            measure="perplexity",
            more_is_better=False,
            target=12.0,
            targets={LINES: 20.0},
            block=10,
            limit=400,
        ),
        Task(
            SENTENCES,
            "sentence embedding",
            Sentences(),
            batch=32,
            rate=1e-3,
            measure="loss",
            more_is_better=False,
            target=1.5,
            targets={LINES: 2.0},
            block=10,
            limit=400,
        ),
    )
}
"""The tasks by key."""
