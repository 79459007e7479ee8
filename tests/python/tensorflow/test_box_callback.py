"""The box's Keras callback, in Keras 3 and in tf_keras."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import finish, started

import farwrite as fw
from farwrite.box.training import SEASGD

sys.path.append(str(Path(__file__).parents[1] / "box"))
from box_examples import accuracy, run_example


@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_the_callback_follows_the_formula_and_the_termination(package: str) -> None:
    with fw.box.serve() as server, server.connect() as box:
        start = {"0/kernel": np.full((1, 1), 16, "f4"), "1/bias": np.full(1, 16, "f4")}
        SEASGD(box, package, start).close()
        program = started("box_callback.py", [server.endpoint, package], {}, subprocess.PIPE)
        answer = finish(program)

        mine = shared = 16.0
        for step in range(1 + 3):
            mine = (shared if step == 1 else mine) - 1  # the second fit starts from the shared
            delta = 0.5 * (mine - shared)
            mine, shared = mine - delta, shared + delta
            if step == 0:
                assert answer["after_one_step"] == pytest.approx([mine, mine])
        assert answer["shared"] == pytest.approx([shared, shared])
        assert answer["epochs"] == 3
        assert answer["version"] == 1 + 1 + 3
        # Two fits of four steps with an exchange in the third: at the start and in that step.
        assert answer["copies"] == 2 * 2
        assert "the tensor '0/kernel' has shape (1, 2)" in answer["refused"]
        assert answer["later"] == {
            "sequential": [1 + 3, True],  # built by the first batch, which joins
            "subclassed": [1 + 3, True],
            "steps": [1 + 1, True],
            "nan": [1, True],
            "bfloat16": [1 + 4, True, True],
        }


@pytest.mark.timeout(300)
@pytest.mark.nightly  # four processes import TensorFlow
def test_the_keras_example_trains_the_digits() -> None:
    assert accuracy(run_example("keras_digits.py")) >= 95
