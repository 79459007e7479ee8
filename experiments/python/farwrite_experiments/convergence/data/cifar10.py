"""The binary format of CIFAR-10: records of a label and an image of 32 x 32 pixels.

A record has 3,073 bytes: the label, from 0 to 9, then 1,024 bytes of red, of green and of blue.
For runs without image files, scikit-learn's digits are written in this format.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite.errors import InvalidArgument, NotFound

SIDE, CHANNELS, CLASSES = 32, 3, 10
RECORD = 1 + SIDE * SIDE * CHANNELS
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
FOLDER = "cifar-10-batches-bin"
"""The folder that the archive of CIFAR-10 unpacks to."""
DIGITS = "scikit-learn digits (1,797 images of 8 x 8, enlarged), in CIFAR-10's format"
ENLARGED = 3
"""A pixel becomes so many in each direction. The images keep a margin, which the network cuts."""
SEED, TEST_SHARE = 20, 0.2


def check(path: Path) -> int:
    """Check a file, and return how many records it has.

    Raises
    ------
    NotFound
        If the file does not exist.
    InvalidArgument
        If the file is not of this format.
    """
    again = "unpack cifar-10-binary.tar.gz again"
    if not path.is_file():
        raise NotFound(f"bench convergence: {path} does not exist; {again}, or correct --data")
    size = path.stat().st_size
    if size == 0 or size % RECORD != 0:
        raise InvalidArgument(
            f"bench convergence: {path} has {size:,} bytes, which is no whole number of CIFAR-10"
            f" records of {RECORD:,} bytes (a label and {SIDE} x {SIDE} x {CHANNELS} values);"
            f" {again}"
        )
    labels = np.memmap(path, np.uint8, "r").reshape(-1, RECORD)[:, 0]
    wrong = np.flatnonzero(labels >= CLASSES)
    if len(wrong):
        raise InvalidArgument(
            f"bench convergence: {path}: record {wrong[0]} has the label {labels[wrong[0]]}, and"
            f" CIFAR-10 has labels below {CLASSES}; {again}"
        )
    return len(labels)


def write(path: Path, images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> None:
    """Write a file.

    Parameters
    ----------
    images : array
        Of shape (count, 32, 32, 3).
    labels : array
        Of shape (count,), from 0 to 9.
    """
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2)).reshape(len(images), -1)
    path.write_bytes(np.concatenate([labels[:, None], planes], axis=1).tobytes())


def write_digits(train: Path, test: Path) -> None:
    """Write scikit-learn's digits, always in the same order. A fifth of them is for the test."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    # The values are whole numbers from 0 to 16.
    square = np.rint(images * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    enlarged = square.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2)
    margin = (SIDE - enlarged.shape[1]) // 2
    whole = np.pad(enlarged, ((0, 0), (margin, margin), (margin, margin)))
    order = np.random.default_rng(SEED).permutation(len(images))
    first = int(len(images) * TEST_SHARE)
    for path, chosen in ((test, order[:first]), (train, order[first:])):
        write(path, whole[chosen, ..., None].repeat(3, axis=3), labels[chosen].astype(np.uint8))


def records(tf: Any, files: Sequence[str]) -> Any:
    """Return the dataset of the records of all files, each a string."""
    return tf.data.FixedLengthRecordDataset(list(files), RECORD)


def decode(tf: Any, batch: Any) -> tuple[Any, Any]:
    """Return the images of a batch of records, (batch, 32, 32, 3) from 0 to 255, and the labels."""
    values = tf.reshape(tf.io.decode_raw(batch, tf.uint8), [-1, RECORD])
    planes = tf.reshape(values[:, 1:], [-1, CHANNELS, SIDE, SIDE])
    return tf.transpose(planes, [0, 2, 3, 1]), tf.cast(values[:, 0], tf.int32)
