"""scikit-learn's digits, written in CIFAR-10's format: for runs without image files."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from farwrite_experiments.convergence.data import cifar10

NAME = "scikit-learn digits (1,797 images of 8 x 8, enlarged), in CIFAR-10's format"
ENLARGED = 3
"""A pixel becomes so many in each direction. The images keep a margin, which the network cuts."""
SEED = 20
TEST_SHARE = 0.2


def write(train: Path, test: Path) -> None:
    """Write the digits, always in the same order. A fifth of them is for the test."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(images))
    first = int(len(images) * TEST_SHARE)
    for path, chosen in ((test, order[:first]), (train, order[first:])):
        # The values are whole numbers from 0 to 16.
        square = np.rint(images[chosen] * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
        enlarged = square.repeat(ENLARGED, axis=1).repeat(ENLARGED, axis=2)
        margin = (cifar10.SIDE - enlarged.shape[1]) // 2
        whole = np.pad(enlarged, ((0, 0), (margin, margin), (margin, margin)))
        cifar10.write(path, whole[..., None].repeat(3, axis=3), labels[chosen].astype(np.uint8))
