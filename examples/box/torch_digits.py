"""Trains a PyTorch model of handwritten digits with four workers over the parameter box.

    pip install torch scikit-learn
    python examples/box/torch_digits.py

Each worker has a quarter of the images and a model of its own. The box keeps the workers together:
after each batch, a worker moves towards the shared weights, and the shared weights move towards
the worker. The program prints how many of the test images the shared weights recognize.
"""

import digits
import numpy as np
import torch
from digits import TRAINING

import farwrite as fw
from farwrite.box.training import Termination
from farwrite.box.training.torch import ModuleSEASGD, read_module

WORKERS = 4
ITERATIONS = 300  # of each worker, on average
BATCH = 32


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
    images, labels = digits.load()
    with fw.box.serve() as server, server.connect() as box:
        mine = [slice(number, TRAINING, WORKERS) for number in range(WORKERS)]
        parts = [(images[one], labels[one]) for one in mine]
        digits.join(digits.start(worker, server.endpoint, parts))
        module = make_module()
        version = read_module(box, "digits", module)
    answers = module(torch.from_numpy(images[TRAINING:])).argmax(dim=1).numpy()
    print(f"{WORKERS} workers exchanged {version - 1} times")
    print(f"test accuracy: {(answers == labels[TRAINING:]).mean():.1%}")


if __name__ == "__main__":
    main()
