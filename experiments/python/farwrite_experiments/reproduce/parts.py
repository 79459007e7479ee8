"""The parts of a run, in order: the command of each, and about how long it takes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One benchmark. Its results are in ``NAME.json``."""

    name: str
    words: str
    """The words after ``farwrite``."""
    seconds: int
    """About how long it takes on two processors."""
    quick: str
    """The words that a quick run adds."""
    quick_seconds: int


_QUICK = "--quick"
PARTS = (
    Part("memory", "bench memory", 40, _QUICK, 5),
    Part("p2p", "bench p2p", 300, _QUICK, 10),
    Part("peers", "bench peers", 420, _QUICK, 60),
    Part("tensor", "bench tensor", 360, _QUICK, 50),
    Part("tensor-tcp", "bench tensor --fabric tcp", 420, _QUICK, 50),
    Part("step", "bench step", 200, _QUICK, 35),
    Part("feed", "bench feed", 130, _QUICK, 20),
    Part("ablations", "bench ablations", 240, _QUICK, 40),
    Part("collective", "bench collective", 40, _QUICK, 25),
    Part("assign", "bench assign", 90, _QUICK, 20),
    Part("sizes", "bench sizes", 30, "", 30),
    Part(
        "train",
        "bench train",
        600,
        "--quick --fabric shm --model vgg16 --model inception_v3 --model lstm",
        130,
    ),
    Part(
        "train-tcp",
        "bench train --fabric tcp",
        600,
        "--quick --model fcn5 --transport rpc-over-fabric --transport farwrite",
        45,
    ),
    Part(
        "train-mnist",
        "bench train --model mnist_mlp --workers 1,2,3,4 --fabric shm",
        240,
        "--quick --workers 1,2",
        50,
    ),
    Part(
        "train-mirrored", "bench train --model vgg16 --mode mirrored --fabric shm", 150, _QUICK, 100
    ),
    Part(
        "train-batches",
        "bench train --model alexnet --model vgg16 --model fcn5 --batch 1,8,32,128 --rounds 3"
        " --transport grpc --transport farwrite --fabric shm",
        480,
        "--quick --batch 1,32",
        120,
    ),
    Part("convergence", "bench convergence", 540, _QUICK, 90),
    Part("scaling", "bench scaling", 480, _QUICK, 60),
    Part("plan", "plan --calibrate", 60, _QUICK, 30),
    Part("plan-published", "plan --published", 5, _QUICK, 30),
    Part("box", "bench box", 540, _QUICK, 30),
    Part("grpc", "bench grpc", 520, _QUICK, 120),
)


def expected(part: Part, *, quick: bool) -> int:
    """Return about how many seconds a part takes."""
    return part.quick_seconds if quick else part.seconds


def command(part: Part, *, quick: bool) -> list[str]:
    """Return the words after ``farwrite``."""
    return f"{part.words} {part.quick if quick else ''}".split()
