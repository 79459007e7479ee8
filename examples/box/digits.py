"""What the examples in this folder share: handwritten digits, and processes that work on them."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess

import numpy as np

TRAINING = 1500  # images; the others are for the test

Part = tuple[np.ndarray, np.ndarray]  # images and their labels


def load() -> Part:
    """Return all images and their labels, in a random order."""
    from sklearn.datasets import load_digits  # takes a second, which other processes save

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order]


def start(
    work: Callable[[int, str, np.ndarray, np.ndarray], None], endpoint: str, parts: list[Part]
) -> list[BaseProcess]:
    """Run ``work(number, endpoint, images, labels)`` in a process for each part."""
    spawn = multiprocessing.get_context("spawn")
    processes: list[BaseProcess] = []
    for number, (images, labels) in enumerate(parts):
        given = (number, endpoint, images, labels)
        processes.append(spawn.Process(target=work, args=given, daemon=True))
        processes[-1].start()
    return processes


def join(processes: list[BaseProcess]) -> None:
    """Wait for the processes, and end this one if one of them failed."""
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a process failed")
