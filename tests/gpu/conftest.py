"""Tests of arrays of PyTorch, CuPy and JAX on a real GPU: `make gpu-test`. CI has no GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import farwrite as fw

sys.path.append(str(Path(__file__).parents[1] / "python"))


@dataclass
class Pair:
    """Two devices of this process, with a channel between them: `near` belongs to `left`."""

    left: fw.Device
    right: fw.Device
    near: fw.Channel
    far: fw.Channel


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected devices of this process."""
    with fw.Device() as left, fw.Device() as right, ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(right.accept, 20)
        near = left.connect(right.endpoint, 20)
        yield Pair(left, right, near, accepted.result())
