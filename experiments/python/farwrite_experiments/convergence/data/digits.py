"""scikit-learn's digits, written in CIFAR-10's format: for runs without image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from farwrite_bench.demo.training.digits import Images, Labels, load
from farwrite_experiments.convergence.data import cifar10

NAME = "scikit-learn digits (1,797 images of 8 x 8, enlarged), in CIFAR-10's format"
ENLARGED = 3
"""A pixel becomes so many in each direction. The images keep a margin, which the network cuts."""


def write(train: Path, test: Path) -> None:
    """Write the digits. A fifth of them is for the test."""
    digits = load()
    _write(train, digits.train_images, digits.train_labels)
    _write(test, digits.test_images, digits.test_labels)


def _write(path: Path, images: Images, labels: Labels) -> None:
    square = np.rint(255 * images).astype(np.uint8).reshape(len(images), 8, 8)
    enlarged = square.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2)
    margin = (cifar10.SIDE - enlarged.shape[1]) // 2
    whole = np.pad(enlarged, ((0, 0), (margin, margin), (margin, margin)))
    cifar10.write(path, whole[..., None].repeat(3, axis=3), labels.astype(np.uint8))
