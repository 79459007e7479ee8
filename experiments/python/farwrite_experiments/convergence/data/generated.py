"""Generated corpora: pairs of sentences of invented words, the same on every Python.

`translations`: a grammar makes one or two clauses of subject, verb and object, with adjectives,
adverbs and prepositions, 4 to 20 words. The translation is a function of the sentence. It moves
words and changes them:

- the verb follows the object, and an adverb ends the clause;
- an adjective follows its noun;
- articles and adjectives take the class and the number of their noun, which only the translated
  noun shows.

`paraphrases`: a meaning is a subject, a relation, a value and sometimes a time. The first sentence
of a pair asks in one of several templates. The second answers in another one, with other words for
most things. The other pairs of a batch are the negatives.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

TRAIN_PAIRS, TEST_PAIRS = 20_000, 256
SHORTEST, LONGEST = 4, 20
"""Words of a sentence that is translated."""
KINDS = {
    "noun": 40,
    "adjective": 16,
    "verb": 20,
    "adverb": 8,
    "preposition": 6,
    "article": 4,
    "pronoun": 4,
}
"""The words of a language, by their kind."""
CLASSES = 3
"""Classes of nouns, by which other words change."""
THINGS = {"subject": 120, "relation": 24, "value": 40, "time": 12}
"""The words of the paraphrases, by what they name."""
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

Item = TypeVar("Item")
Sentence = list[str]
Pair = tuple[Sentence, Sentence]
Corpus = tuple[list[Pair], list[Pair]]
"""The pairs of the training, and those of the test."""


class Word(NamedTuple):
    """A word in both languages, and its place among the words of its kind."""

    source: str
    target: str
    number: int


class Part(NamedTuple):
    """A part of a clause in both languages."""

    source: Sentence
    target: Sentence
    plural: bool = False


class Choices(random.Random):
    """Makes the same choices in every run, because only `random` is used.

    Python keeps its numbers for a seed from version to version.
    """

    def happens(self, share: float) -> bool:
        """Return true in this share of the calls."""
        return self.random() < share

    def one(self, items: Sequence[Item]) -> Item:
        """Choose one of the items, each equally often."""
        return items[int(self.random() * len(items))]

    def frequent(self, items: Sequence[Item]) -> Item:
        """Choose one of the items, the first ones most often, as words of a language occur."""
        return items[int(self.random() ** 2 * len(items))]


def _dictionary(counts: dict[str, int]) -> dict[str, list[Word]]:
    """Invent words of both languages for each kind."""
    total = sum(counts.values())
    pairs = zip(
        _invented(total, "bdfgklmnprst", "aeiou"),
        _invented(total, "chjlmnqrvwxz", "aeouy"),
        strict=True,
    )
    return {
        kind: [Word(*pair, number) for number, pair in enumerate(islice(pairs, count))]
        for kind, count in counts.items()
    }


def _invented(count: int, consonants: str, vowels: str) -> list[str]:
    """Return `count` words of two syllables, in a fixed order that mixes them."""
    syllables = [first + second for first in consonants for second in vowels]
    total = len(syllables) ** 2
    stride = next(step for step in range(total // 3, total) if math.gcd(step, total) == 1)
    places = (divmod(number * stride % total, len(syllables)) for number in range(count))
    return [syllables[first] + syllables[second] for first, second in places]


class Grammar:
    """Makes sentences and their translations, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._choices, self._words = Choices(seed), _dictionary(KINDS)

    def pairs(self) -> Iterator[Pair]:
        """Yield sentences with their translations, without end."""
        while True:
            source, target = self._sentence()
            if SHORTEST <= len(source) <= LONGEST:
                yield source, target

    def _sentence(self) -> Pair:
        source, target, _ = self._clause()
        if not self._choices.happens(0.03):
            return source, target
        second = self._clause()
        return [*source, "ke", *second.source], [*second.target, "oy", *target]

    def _clause(self) -> Part:
        if self._choices.happens(0.3):
            pronoun = self._word("pronoun")
            subject = Part([pronoun.source], [pronoun.target], pronoun.number % 2 == 1)
        else:
            subject = self._noun_phrase()
        verb, thing = self._word("verb"), self._noun_phrase()
        source = [*subject.source, verb.source + "ti" * subject.plural, *thing.source]
        target = [*subject.target, *thing.target]
        if self._choices.happens(0.2):
            preposition, place = self._word("preposition"), self._noun_phrase()
            source += [preposition.source, *place.source]
            target += [*place.target, preposition.target]
        target.append(verb.target + ("en" if subject.plural else "a"))
        if self._choices.happens(0.3):
            adverb = self._word("adverb")
            source.insert(0, adverb.source)
            target.append(adverb.target)
        return Part(source, target)

    def _noun_phrase(self) -> Part:
        noun, article = self._word("noun"), self._word("article")
        plural = self._choices.happens(0.35)
        ending = "aou"[noun.number % CLASSES] + "s" * plural
        source, target = [article.source], [article.target + ending, noun.target + "i" * plural]
        if self._choices.happens(0.4):
            adjective = self._word("adjective")
            source.append(adjective.source)
            target.append(adjective.target + ending)
        return Part([*source, noun.source + "s" * plural], target, plural)

    def _word(self, kind: str) -> Word:
        return self._choices.frequent(self._words[kind])


def translations() -> Corpus:
    """Return sentences and their translations. No sentence of the test is in the training."""
    made = Grammar(seed=1).pairs()
    test = list(islice(made, TEST_PAIRS))
    known = {tuple(source) for source, _ in test}
    others = (pair for pair in made if tuple(pair[0]) not in known)
    return list(islice(others, TRAIN_PAIRS)), test


def paraphrased(seed: int) -> Iterator[Pair]:
    """Yield sentences that mean the same, without end. The same seed gives the same pairs."""
    choices, words = Choices(seed), _dictionary(THINGS)
    while True:
        meant = {kind: choices.frequent(words[kind]) for kind in words}
        if choices.happens(0.5):
            meant["time"] = Word("", "", 0)
        first = {kind: word.source for kind, word in meant.items()}
        asked = choices.one(FIRST).format(**first).split()
        template = choices.one(SECOND)
        # A fifth of the words is the same in both sentences.
        second = {kind: word[choices.happens(0.8)] for kind, word in meant.items()}
        yield asked, template.format(**second).split()


def paraphrases() -> Corpus:
    """Return sentences that mean the same."""
    made = paraphrased(seed=2)
    test = list(islice(made, TEST_PAIRS))
    return list(islice(made, TRAIN_PAIRS)), test
