"""What each task reads: files that the user names, or generated ones in the same format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import InvalidArgument, NotFound
from farwrite_experiments.convergence.data import cifar10, generated, lines, mnist_idx

IMAGES, SEQ2SEQ, SENTENCES = "images", "seq2seq", "sentences"
"""The tasks."""
CIFAR10, MNIST_IDX, LINES = "cifar10", "mnist-idx", "lines"
"""The formats."""
TRANSLATION_FOLDER, SENTENCES_FOLDER = "translation", "sentences"
SIDES = {TRANSLATION_FOLDER: ("source", "target"), SENTENCES_FOLDER: ("first", "second")}
"""The ends of the names of the files of a pair."""


@dataclass(frozen=True)
class Data:
    """The files of one data set, for training and for the measure of quality."""

    name: str
    """The name in tables and in the JSON file."""
    synthetic: bool
    """Whether a program made the samples up."""
    format: str
    train: tuple[str, ...]
    """Paths: files one after another, or two files whose records or lines belong together."""
    test: tuple[str, ...]
    """The same, of samples that no worker trains with."""
    records: int
    """Of the training, before pairs with an empty line are left out."""
    words: tuple[str, ...] = ()
    """For lines: the files of the vocabularies, one word a line."""


def choose(task: str, folder: Path | None, made: Path) -> Data:
    """Return what a task reads. Files of the user are checked.

    Parameters
    ----------
    task : str
        `IMAGES`, `SEQ2SEQ` or `SENTENCES`.
    folder : Path, optional
        The user's data. None generates data.
    made : Path
        A folder for generated files. It must live as long as the processes that read them.

    Raises
    ------
    NotFound
        If the folder has no data for the task, or a file is missing.
    InvalidArgument
        If a file is damaged.
    """
    made = made / task
    made.mkdir(parents=True, exist_ok=True)
    if task == IMAGES:
        return _digits(made) if folder is None else _images(folder)
    if task == SEQ2SEQ:
        return _text(TRANSLATION_FOLDER, folder, made, generated.translations)
    return _text(SENTENCES_FOLDER, folder, made, generated.paraphrases)


def _digits(made: Path) -> Data:
    train, test = made / "train.bin", made / "test.bin"
    cifar10.write_digits(train, test)
    name, records = cifar10.DIGITS, cifar10.check(train)
    return Data(name, False, CIFAR10, (str(train),), (str(test),), records)


def _images(folder: Path) -> Data:
    cifar, mnist = folder / cifar10.FOLDER, folder / mnist_idx.FOLDER
    if cifar.is_dir():
        train, test = _paths(cifar, cifar10.TRAIN), _paths(cifar, cifar10.TEST)
        _, *records = (cifar10.check(Path(file)) for file in (*test, *train))
        return Data("CIFAR-10", False, CIFAR10, train, test, sum(records))
    if mnist.is_dir():
        train, test = _paths(mnist, mnist_idx.TRAIN), _paths(mnist, mnist_idx.TEST)
        count, _ = (mnist_idx.check(*map(Path, files)) for files in (train, test))
        return Data("MNIST", False, MNIST_IDX, train, test, count)
    raise NotFound(
        f"bench convergence: {folder} has neither the folder {cifar10.FOLDER} nor"
        f" {mnist_idx.FOLDER}; put the files of CIFAR-10 (binary version) or MNIST there, or leave"
        " the task images out with --task"
    )


def _paths(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(folder / name) for name in names)


def _text(
    name: str, folder: Path | None, made: Path, generate: Callable[[], generated.Corpus]
) -> Data:
    place = made if folder is None else folder / name
    train, test = ([f"{kind}.{side}" for side in SIDES[name]] for kind in ("train", "test"))
    if not place.is_dir():
        raise NotFound(
            f"bench convergence: {place} is not a folder; put {', '.join((*train, *test))}"
            f" there, or leave the task out with --task"
        )
    if folder is None:
        for names, pairs in zip((train, test), generate(), strict=True):
            for file, side in zip(names, zip(*pairs, strict=True), strict=True):
                text = "".join(" ".join(sentence) + "\n" for sentence in side)
                (place / file).write_text(text, encoding="utf-8")
    records, _ = (lines.check(*(place / file for file in files)) for files in (train, test))
    # Both sentences of a paraphrase are of one language.
    sources = [train] if name == SENTENCES_FOLDER else [train[:1], train[1:]]
    words = []
    for number, files in enumerate(sources):
        found = lines.vocabulary([place / file for file in files])
        if len(found) == len(lines.RESERVED):
            raise InvalidArgument(
                f"bench convergence: {place / files[0]} has no word; put one sentence on each line"
            )
        words.append(made / f"words{number}")
        words[-1].write_bytes(b"".join(word + b"\n" for word in found))
    return Data(
        "generated, synthetic" if folder is None else str(place),
        folder is None,
        LINES,
        _paths(place, tuple(train)),
        _paths(place, tuple(test)),
        records,
        tuple(map(str, words)),
    )
