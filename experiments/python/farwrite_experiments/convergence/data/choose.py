"""Chooses what each task reads: files that the user names, or generated ones in the same format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from farwrite.errors import InvalidArgument, NotFound
from farwrite_experiments.convergence.data import (
    cifar10,
    digits,
    lines,
    mnist_idx,
    paraphrases,
    translation,
)
from farwrite_experiments.convergence.data.data import CIFAR10, LINES, MNIST_IDX, Data

IMAGES, SEQ2SEQ, SENTENCES = "images", "seq2seq", "sentences"
"""The tasks."""
TRANSLATION_FOLDER, SENTENCES_FOLDER = "translation", "sentences"
SIDES = {TRANSLATION_FOLDER: ("source", "target"), SENTENCES_FOLDER: ("first", "second")}
"""The ends of the names of the files of a pair."""
SYNTHETIC = "generated, synthetic"

Files = tuple[Path, Path]


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
    name, writer = {
        SEQ2SEQ: (TRANSLATION_FOLDER, translation.write),
        SENTENCES: (SENTENCES_FOLDER, paraphrases.write),
    }[task]
    return _text(name, folder, made, writer, shared=task == SENTENCES)


def _digits(made: Path) -> Data:
    train, test = made / "train.bin", made / "test.bin"
    digits.write(train, test)
    return Data(digits.NAME, False, CIFAR10, (str(train),), (str(test),), cifar10.check(train))


def _images(folder: Path) -> Data:
    cifar, mnist = folder / cifar10.FOLDER, folder / mnist_idx.FOLDER
    if cifar.is_dir():
        train, test = ([cifar / name for name in names] for names in (cifar10.TRAIN, cifar10.TEST))
        cifar10.check(*test)
        records = sum(map(cifar10.check, train))
        return Data(
            *("CIFAR-10", False, CIFAR10, tuple(map(str, train)), tuple(map(str, test)), records)
        )
    if mnist.is_dir():
        counts = [
            mnist_idx.check(mnist / images, mnist / labels)
            for images, labels in (mnist_idx.TRAIN, mnist_idx.TEST)
        ]
        return Data(
            "MNIST",
            False,
            MNIST_IDX,
            tuple(str(mnist / name) for name in mnist_idx.TRAIN),
            tuple(str(mnist / name) for name in mnist_idx.TEST),
            counts[0],
        )
    raise NotFound(
        f"bench convergence: {folder} has neither the folder {cifar10.FOLDER} nor"
        f" {mnist_idx.FOLDER}; put the files of CIFAR-10 (binary version) or MNIST there, or leave"
        " the task images out with --task"
    )


def _text(
    name: str,
    folder: Path | None,
    made: Path,
    writer: Callable[[Files, Files], None],
    *,
    shared: bool,
) -> Data:
    place = made if folder is None else folder / name
    if not place.is_dir():
        raise NotFound(
            f"bench convergence: {place} is not a folder; put"
            f" {', '.join(f'{kind}.{side}' for kind in ('train', 'test') for side in SIDES[name])}"
            f" there, or leave the task out with --task"
        )
    train, test = (_pair(place, kind, name) for kind in ("train", "test"))
    if folder is None:
        writer(train, test)
    records, _ = (lines.check(*files) for files in (train, test))
    # Both sentences of a paraphrase are of one language.
    sources = [train] if shared else [(train[0],), (train[1],)]
    words = []
    for number, files in enumerate(sources):
        file = made / f"words{number}"
        found = lines.vocabulary(files)
        if len(found) == len(lines.RESERVED):
            raise InvalidArgument(
                f"bench convergence: {files[0]} has no word; put one sentence on each line"
            )
        file.write_bytes(b"".join(word + b"\n" for word in found))
        words.append(str(file))
    return Data(
        str(place) if folder is not None else SYNTHETIC,
        folder is None,
        LINES,
        (str(train[0]), str(train[1])),
        (str(test[0]), str(test[1])),
        records,
        tuple(words),
    )


def _pair(place: Path, kind: str, name: str) -> Files:
    first, second = SIDES[name]
    return place / f"{kind}.{first}", place / f"{kind}.{second}"
