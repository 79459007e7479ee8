"""The examples of the box that need no TensorFlow."""

from __future__ import annotations

import re

import pytest
from box_examples import accuracy, run_example


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_pytorch_example_trains_the_digits() -> None:
    pytest.importorskip("torch")
    assert accuracy(run_example("torch_digits.py")) >= 95


@pytest.mark.timeout(300)
def test_the_readers_end_with_the_last_weights() -> None:
    output = run_example("readers.py")
    lines = re.findall(r"scored (\d+) versions; the last recognizes ([\d.]+)%", output)
    assert len(lines) == 4
    assert len({right for _, right in lines}) == 1
    assert float(lines[0][1]) >= 95
    assert all(int(versions) <= 60 for versions, _ in lines)
