"""PyTorch's own way to share a CUDA tensor with another process: ``torch.multiprocessing``."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

from farwrite.errors import PeerDead

INSTALL = "no module torch: pip install torch, with CUDA"


def is_missing() -> bool:
    """Whether PyTorch, or its CUDA, is not there."""
    if importlib.util.find_spec("torch") is None:
        return True
    return not importlib.import_module("torch").cuda.is_available()


def start(size: int, ordinal: int, stack: contextlib.ExitStack) -> Callable[[int, int], float]:
    """Let another process own a tensor, and return a turn that copies from it to one of ours."""
    torch = importlib.import_module("torch")
    ends = _Owner(size, ordinal, stack)
    shared = ends.take()
    mine = torch.empty(size, dtype=torch.uint8, device=f"cuda:{ordinal}")

    def turn(part: int, transfers: int) -> float:
        with _failing():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(transfers):
                mine[:part].copy_(shared[:part])
                torch.cuda.synchronize()
            return time.perf_counter() - begin

    return turn


def hand_over_us(size: int, ordinal: int, times: int) -> list[float]:
    """Have another process put its tensor into a queue, and take it, so many times."""
    with contextlib.ExitStack() as stack:
        owner = _Owner(size, ordinal, stack)
        taken = []
        owner.take()
        for _ in range(times):
            begin = time.perf_counter()
            tensor = owner.take()
            taken.append((time.perf_counter() - begin) * 1e6)
            del tensor
        return taken


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Raise an error of PyTorch, or of its queue, as a failure of the benchmark's other process."""
    try:
        yield
    except (RuntimeError, queue.Empty) as error:
        raise PeerDead(
            f"bench gpu: PyTorch shared no tensor: {str(error) or 'none came in time'}"
        ) from None


class _Owner:
    def __init__(self, size: int, ordinal: int, stack: contextlib.ExitStack) -> None:
        processes = importlib.import_module("torch.multiprocessing")
        context = processes.get_context("spawn")
        self._orders, self._tensors = context.SimpleQueue(), context.Queue()
        process = context.Process(
            target=_own, args=(size, ordinal, self._orders, self._tensors), daemon=True
        )
        process.start()
        stack.callback(process.join, 30)
        stack.callback(self._orders.put, False)

    def take(self) -> Any:
        with _failing():
            self._orders.put(True)
            return self._tensors.get(timeout=120)


def _own(size: int, ordinal: int, orders: Any, tensors: Any) -> None:
    torch = importlib.import_module("torch")
    tensor = torch.full((size,), 7, dtype=torch.uint8, device=f"cuda:{ordinal}")
    torch.cuda.synchronize()
    while orders.get():
        tensors.put(tensor)
