"""The data: the digits that scikit-learn contains, and the order of the batches."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from farwrite_bench.demo.training.plan import BATCH, SEED

NAME = "scikit-learn digits (1,797 images of 8 x 8)"
TEST_SHARE = 0.2

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Digits:
    """Images of shape (count, 64), values from 0 to 1, and labels from 0 to 9."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def load() -> Digits:
    """Load and split the images, always in the same way. A fifth of them is for the test."""
    datasets: Any = importlib.import_module("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(images))
    images = (images[order] / 16).astype(np.float32)
    labels = labels[order].astype(np.int32)
    test = int(len(images) * TEST_SHARE)
    return Digits(images[test:], labels[test:], images[:test], labels[:test])


def batches(digits: Digits, count: int, size: int = BATCH) -> npt.NDArray[np.int32]:
    """Choose the images of `count` batches. Each epoch has another order, the same in every run.

    Returns
    -------
    array
        Indices of training images, of shape (count, `size`).
    """
    images = len(digits.train_images)
    whole = images // size
    epochs = [
        np.random.default_rng((SEED, epoch)).permutation(images)[: whole * size]
        for epoch in range(-(-count // whole))
    ]
    return np.concatenate(epochs).reshape(-1, size)[:count].astype(np.int32)
