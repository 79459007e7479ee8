"""MNIST's format IDX: a file of images and a file of labels.

A file begins with big-endian numbers of four bytes: 0x803 for images or 0x801 for labels, the
count, and for images the height and the width. One byte for each value follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farwrite.errors import InvalidArgument, NotFound

SIDE, CLASSES = 28, 10
IMAGES, LABELS = 0x803, 0x801
IMAGES_HEAD, LABELS_HEAD = 16, 8
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FOLDER = "mnist"
_AGAIN = "fetch it again and unpack it with gunzip"


def check(images: Path, labels: Path) -> int:
    """Check a pair of files, and return how many images they have.

    Raises
    ------
    NotFound
        If a file does not exist.
    InvalidArgument
        If a file is not of this format, or the files do not belong together.
    """
    count, *_ = _check_file(images, IMAGES, "images", (SIDE, SIDE))
    (labelled,) = _check_file(labels, LABELS, "labels")
    if count != labelled or count == 0:
        raise InvalidArgument(
            f"bench convergence: {images} has {count:,} images and {labels} has {labelled:,}"
            " labels; use files of the same set"
        )
    values = np.memmap(labels, np.uint8, "r", offset=LABELS_HEAD)
    wrong = np.flatnonzero(values >= CLASSES)
    if len(wrong):
        raise InvalidArgument(
            f"bench convergence: {labels}: label {wrong[0]} is {values[wrong[0]]}, and MNIST has"
            f" labels below {CLASSES}; {_AGAIN}"
        )
    return count


def _check_file(path: Path, magic: int, what: str, sides: tuple[int, ...] = ()) -> list[int]:
    """Check the head and the size of a file; return the numbers of its head behind the first."""
    if not path.is_file():
        packed = path.with_name(f"{path.name}.gz")
        remedy = f"run gunzip {packed}" if packed.is_file() else "fetch it, or correct --data"
        raise NotFound(f"bench convergence: {path} does not exist; {remedy}")
    head: list[int] = np.fromfile(path, ">u4", 2 + len(sides)).tolist()
    if len(head) < 2 + len(sides) or head[0] != magic:
        found = "is too short" if len(head) < 2 + len(sides) else f"begins with {head[0]:#x}"
        raise InvalidArgument(
            f"bench convergence: {path} {found}, and an IDX file of {what} begins with {magic:#x}"
            f" and has at least {4 * (2 + len(sides))} bytes; {_AGAIN}"
        )
    if tuple(head[2:]) != sides:
        raise InvalidArgument(
            f"bench convergence: {path} has images of {head[2]} x {head[3]} pixels, and MNIST has"
            f" {SIDE} x {SIDE}; {_AGAIN}"
        )
    size, needed = path.stat().st_size, 4 * len(head) + head[1] * math.prod(sides)
    if size != needed:
        raise InvalidArgument(
            f"bench convergence: {path} has {size:,} bytes, and {head[1]:,} {what} need {needed:,};"
            f" {_AGAIN}"
        )
    return head[1:]


def records(tf: Any, files: Sequence[str]) -> Any:
    """Return the dataset of the pairs of an image and its label, each a string."""
    images, labels = files
    return tf.data.Dataset.zip(
        (
            tf.data.FixedLengthRecordDataset(images, SIDE * SIDE, header_bytes=IMAGES_HEAD),
            tf.data.FixedLengthRecordDataset(labels, 1, header_bytes=LABELS_HEAD),
        )
    )


def decode(tf: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """Return the images of a batch, (batch, 28, 28, 3) from 0 to 255, and the labels."""
    values = tf.reshape(tf.io.decode_raw(images, tf.uint8), [-1, SIDE, SIDE, 1])
    numbers = tf.reshape(tf.io.decode_raw(labels, tf.uint8), [-1])
    return tf.repeat(values, 3, axis=-1), tf.cast(numbers, tf.int32)
