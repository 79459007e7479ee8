"""Trains a PyTorch model of handwritten digits with four workers over the parameter box.

    python examples/box/torch_digits.py

Each worker has a quarter of the images and a model of its own. The box keeps the workers together:
after each batch, a worker moves towards the shared weights, and the shared weights move towards
the worker. The program prints how many of the test images the shared weights recognize.
"""

import multiprocessing

import torch
from sklearn.datasets import load_digits

import farwrite as fw
from farwrite.box.training import Termination
from farwrite.box.training.torch import ModuleSEASGD, read_module

WORKERS = 4
ITERATIONS = 800  # of each worker, on average
BATCH = 32


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return all images and their labels, always in the same random order."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]


def make_module() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )


def worker(number: int, endpoint: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(number)
    images, labels = digits()
    mine = torch.arange(number, 1500, WORKERS)  # the other images are for the test
    module = make_module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    with (
        fw.box.connect(endpoint) as box,
        ModuleSEASGD(box, "digits", module, optimizer) as sgd,
        Termination(box, "iterations", WORKERS, ITERATIONS, "average") as termination,
    ):
        while True:
            batch = mine[torch.randint(len(mine), (BATCH,))]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(images[batch]), labels[batch]).backward()
            optimizer.step()
            sgd.step()
            if termination.advance(number):
                break


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    with fw.box.serve() as server, server.connect() as box:
        workers = [
            spawn.Process(target=worker, args=(number, server.endpoint), daemon=True)
            for number in range(WORKERS)
        ]
        for process in workers:
            process.start()
        for process in workers:
            process.join()
        if any(process.exitcode for process in workers):
            raise SystemExit("a worker failed")

        module = make_module()
        version = read_module(box, "digits", module)
    images, labels = digits()
    right = (module(images[1500:]).argmax(dim=1) == labels[1500:]).float().mean().item()
    print(f"{WORKERS} workers exchanged {version - 1} times")
    print(f"test accuracy: {right:.1%}")


if __name__ == "__main__":
    main()
