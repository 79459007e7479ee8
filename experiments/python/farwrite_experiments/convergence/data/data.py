"""What a task reads: files of one format."""

from __future__ import annotations

from dataclasses import dataclass

CIFAR10, MNIST_IDX, LINES = "cifar10", "mnist-idx", "lines"
"""The formats."""


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
