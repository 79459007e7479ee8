"""A generated corpus for sequence to sequence: sentences of an invented language and translations.

A grammar makes the sentences: one or two clauses of subject, verb and object, with adjectives,
adverbs and prepositions, 4 to 20 words. The translation is a function of the sentence. It moves
words and changes them:

- the verb follows the object, and an adverb ends the clause;
- an adjective follows its noun;
- articles and adjectives take the class and the number of their noun, which only the translated
  noun shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farwrite_experiments.convergence.data.invented import Choices, invented

SHORTEST, LONGEST = 4, 20
"""Words of a sentence."""
TRAIN_PAIRS, TEST_PAIRS = 20_000, 256
NOUNS, ADJECTIVES, VERBS, ADVERBS, PREPOSITIONS, ARTICLES, PRONOUNS = 40, 16, 20, 8, 6, 4, 4
CLASSES = 3
"""Classes of nouns, by which other words change."""
_KINDS = (NOUNS, ADJECTIVES, VERBS, ADVERBS, PREPOSITIONS, ARTICLES, PRONOUNS)

Sentence = list[str]


@dataclass(frozen=True)
class _Word:
    """A word in both languages."""

    source: str
    target: str
    number: int
    """Its place among the words of its kind."""


@dataclass(frozen=True)
class _Part:
    """A part of a clause in both languages."""

    source: Sentence
    target: Sentence
    plural: bool = False


def _dictionary() -> list[list[_Word]]:
    sources = iter(invented(sum(_KINDS), "bdfgklmnprst", "aeiou"))
    targets = iter(invented(sum(_KINDS), "chjlmnqrvwxz", "aeouy"))
    return [
        [_Word(next(sources), next(targets), number) for number in range(count)] for count in _KINDS
    ]


class Grammar:
    """Makes sentences and their translations.

    Parameters
    ----------
    seed : int
        The same seed gives the same sentences.
    """

    def __init__(self, seed: int) -> None:
        self._choices = Choices(seed)
        (
            self._nouns,
            self._adjectives,
            self._verbs,
            self._adverbs,
            self._prepositions,
            self._articles,
            self._pronouns,
        ) = _dictionary()

    def pairs(self) -> Iterator[tuple[Sentence, Sentence]]:
        """Yield sentences with their translations, without end."""
        while True:
            part = self._sentence()
            if SHORTEST <= len(part.source) <= LONGEST:
                yield part.source, part.target

    def _sentence(self) -> _Part:
        first = self._clause()
        if not self._choices.happens(0.03):
            return first
        second = self._clause()
        return _Part([*first.source, "ke", *second.source], [*second.target, "oy", *first.target])

    def _clause(self) -> _Part:
        choices = self._choices
        if choices.happens(0.3):
            pronoun = choices.frequent(self._pronouns)
            plural = pronoun.number % 2 == 1
            subject = _Part([pronoun.source], [pronoun.target], plural)
        else:
            subject = self._noun_phrase()
        verb, thing = choices.frequent(self._verbs), self._noun_phrase()
        source = [*subject.source, verb.source + "ti" * subject.plural, *thing.source]
        target = [*subject.target, *thing.target]
        if choices.happens(0.2):
            preposition, place = choices.frequent(self._prepositions), self._noun_phrase()
            source += [preposition.source, *place.source]
            target += [*place.target, preposition.target]
        target.append(verb.target + ("en" if subject.plural else "a"))
        if choices.happens(0.3):
            adverb = choices.frequent(self._adverbs)
            source.insert(0, adverb.source)
            target.append(adverb.target)
        return _Part(source, target)

    def _noun_phrase(self) -> _Part:
        choices = self._choices
        noun, article = choices.frequent(self._nouns), choices.frequent(self._articles)
        plural = choices.happens(0.35)
        ending = "aou"[noun.number % CLASSES] + "s" * plural
        source = [article.source]
        target = [article.target + ending, noun.target + "i" * plural]
        if choices.happens(0.4):
            adjective = choices.frequent(self._adjectives)
            source.append(adjective.source)
            target.append(adjective.target + ending)
        return _Part([*source, noun.source + "s" * plural], target, plural)


def write(train: tuple[Path, Path], test: tuple[Path, Path]) -> None:
    """Write the corpus as two pairs of line-aligned files: for training, and others for tests."""
    made = Grammar(seed=1).pairs()
    held_out = [next(made) for _ in range(TEST_PAIRS)]
    known = {" ".join(source) for source, _ in held_out}
    chosen: list[tuple[Sentence, Sentence]] = []
    while len(chosen) < TRAIN_PAIRS:
        pair = next(made)
        if " ".join(pair[0]) not in known:
            chosen.append(pair)
    write_pairs(train, chosen)
    write_pairs(test, held_out)


def write_pairs(files: tuple[Path, Path], pairs: list[tuple[Sentence, Sentence]]) -> None:
    """Write pairs of sentences as two line-aligned files."""
    for side, file in enumerate(files):
        file.write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs), encoding="utf-8")
