"""A generated corpus for sentence embedding: pairs of sentences that mean the same.

A meaning is a subject, a relation, a value and sometimes a time. The first sentence of a pair asks
in one of several templates. The second answers in another one, with other words for most things.
The other pairs of a batch are the negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from farwrite_experiments.convergence.data.invented import Choices, invented
from farwrite_experiments.convergence.data.translation import Sentence, write_pairs

TRAIN_PAIRS, TEST_PAIRS = 20_000, 256
SUBJECTS, RELATIONS, VALUES, TIMES = 120, 24, 40, 12
FIRST = (
    "which {relation} of {subject} is {value} {time}",
    "does {subject} {time} have {relation} {value}",
    "is {value} the {relation} of {subject} {time}",
    "tell me whether {subject} has the {relation} {value} {time}",
)
SECOND = (
    "{time} {value} is what {subject} has for {relation}",
    "{subject} {relation} {value} {time}",
    "for {subject} {relation} means {value} {time}",
    "{time} the {relation} {value} belongs to {subject} alone",
)


def pairs(seed: int) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield pairs, without end. The same seed gives the same pairs."""
    choices = Choices(seed)
    kinds = {"subject": SUBJECTS, "relation": RELATIONS, "value": VALUES, "time": TIMES}
    total = sum(kinds.values())
    names = iter(invented(total, "bdfgklmnprst", "aeiou"))
    others = iter(invented(total, "chjlmnqrvwxz", "aeouy"))
    words = {
        kind: [(next(names), next(others)) for _ in range(count)] for kind, count in kinds.items()
    }
    while True:
        meant = {kind: choices.frequent(words[kind]) for kind in kinds}
        if choices.happens(0.5):
            meant["time"] = ("", "")
        yield (
            _sentence(choices.one(FIRST), {kind: word[0] for kind, word in meant.items()}),
            _sentence(
                choices.one(SECOND),
                # A fifth of the words is the same in both sentences.
                {kind: word[choices.happens(0.8)] for kind, word in meant.items()},
            ),
        )


def _sentence(template: str, words: dict[str, str]) -> Sentence:
    return template.format(**words).split()


def write(train: tuple[Path, Path], test: tuple[Path, Path]) -> None:
    """Write the corpus as two pairs of line-aligned files: for training, and others for tests."""
    made = pairs(seed=2)
    write_pairs(test, [next(made) for _ in range(TEST_PAIRS)])
    write_pairs(train, [next(made) for _ in range(TRAIN_PAIRS)])
