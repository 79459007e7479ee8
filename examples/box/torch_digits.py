"""Trains a PyTorch model of handwritten digits with four workers over the parameter box.

    python examples/box/torch_digits.py

Each worker has a quarter of the images and a model of its own. The box keeps the workers together:
after each batch, a worker moves towards the shared weights, and the shared weights move towards
the worker. The program prints how many of the test images the shared weights recognize.
"""

import multiprocessing

import numpy as np
import torch

import farwrite as fw
from farwrite.box.training import Termination
from farwrite.box.training.torch import ModuleSEASGD, read_module

WORKERS = 4
ITERATIONS = 300  # of each worker, on average
BATCH = 32
TRAINING = 1500  # images; the others are for the test


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return all images and their labels, in a random order."""
    from sklearn.datasets import load_digits  # takes a second, which the workers save

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order]


def make_module() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def worker(number: int, endpoint: str, images: np.ndarray, labels: np.ndarray) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(number)
    inputs, answers = torch.from_numpy(images), torch.from_numpy(labels)
    module = make_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    with (
        fw.box.connect(endpoint) as box,
        ModuleSEASGD(box, "digits", module, optimizer) as sgd,
        Termination(box, "iterations", WORKERS, ITERATIONS, "average") as termination,
    ):
        box.event("started").signal()
        box.event("started").wait(WORKERS, timeout=120)  # or the first would train alone
        stop = False
        while not stop:
            batch = torch.randint(len(inputs), (BATCH,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(inputs[batch]), answers[batch]).backward()
            optimizer.step()
            sgd.step()
            stop = termination.advance(number)


def main() -> None:
    images, labels = digits()
    spawn = multiprocessing.get_context("spawn")
    with fw.box.serve() as server, server.connect() as box:
        workers = []
        for number in range(WORKERS):
            mine = slice(number, TRAINING, WORKERS)
            given = (number, server.endpoint, images[mine], labels[mine])
            workers.append(spawn.Process(target=worker, args=given, daemon=True))
            workers[-1].start()
        for process in workers:
            process.join()
        if any(process.exitcode for process in workers):
            raise SystemExit("a worker failed")
        module = make_module()
        version = read_module(box, "digits", module)
    answers = module(torch.from_numpy(images[TRAINING:])).argmax(dim=1).numpy()
    print(f"{WORKERS} workers exchanged {version - 1} times")
    print(f"test accuracy: {(answers == labels[TRAINING:]).mean():.1%}")


if __name__ == "__main__":
    main()
