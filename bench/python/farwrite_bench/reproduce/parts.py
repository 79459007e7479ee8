"""The parts of a run, in order: the command of each, and about how long it takes."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.networks.network import MNIST_MLP, VGG16


@dataclass(frozen=True)
class Part:
    """One benchmark. Its results are in ``NAME.json``."""

    name: str
    words: tuple[str, ...]
    """The words after ``farwrite bench``."""
    seconds: int
    """About how long it takes on two processors."""
    quick: tuple[str, ...]
    """The words that a quick run adds."""
    quick_seconds: int


_ONE_FABRIC = ("--quick", "--fabric", "shm")
PARTS = (
    Part("memory", ("memory",), 40, ("--quick",), 10),
    Part("p2p", ("p2p",), 300, ("--quick",), 20),
    Part("peers", ("peers",), 420, ("--quick",), 60),
    Part("tensor", ("tensor",), 360, ("--quick",), 90),
    Part("tensor-tcp", ("tensor", "--fabric", "tcp"), 420, ("--quick",), 90),
    Part("step", ("step",), 200, ("--quick",), 100),
    Part("feed", ("feed",), 130, ("--quick",), 40),
    Part("ablations", ("ablations",), 240, ("--quick",), 70),
    Part("collective", ("collective",), 40, ("--quick",), 25),
    Part("assign", ("assign",), 90, ("--quick",), 30),
    Part("sizes", ("sizes",), 45, (), 45),
    Part("train", ("train",), 600, _ONE_FABRIC, 200),
    Part(
        "train-tcp",
        ("train", "--fabric", "tcp"),
        600,
        ("--quick", "--model", "fcn5", "--transport", "rpc-over-fabric", "--transport", "farwrite"),
        30,
    ),
    Part(
        "train-mnist",
        ("train", "--model", MNIST_MLP.key, "--workers", "1,2,3,4", "--fabric", "shm"),
        240,
        ("--quick", "--workers", "1,2"),
        80,
    ),
    Part(
        "train-mirrored",
        ("train", "--model", VGG16.key, "--mode", "mirrored", "--fabric", "shm"),
        150,
        ("--quick",),
        80,
    ),
    Part(
        "train-batches",
        (
            *("train", "--batch", "1,8,32,128", "--rounds", "3"),
            *("--transport", "grpc", "--transport", "farwrite", "--fabric", "shm"),
        ),
        600,
        ("--quick", "--batch", "1,32", "--model", "fcn5", "--model", "lstm"),
        60,
    ),
    Part("box", ("box",), 540, ("--quick",), 60),
    Part("grpc", ("grpc",), 520, ("--quick",), 60),
)


def expected(part: Part, *, quick: bool) -> int:
    """Return about how many seconds a part takes."""
    return part.quick_seconds if quick else part.seconds


def command(part: Part, *, quick: bool) -> tuple[str, ...]:
    """Return the words after ``farwrite bench``."""
    return (*part.words, *part.quick) if quick else part.words
