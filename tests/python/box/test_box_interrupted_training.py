"""An exception in the middle of a training step lets nothing later into what it has posted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from boxes import open_box

from farwrite.box.training import SEASGD, AsyncSGD
from interrupted import interrupt_each_place

SIZE = 1 << 14


def weights(value: float) -> list[np.ndarray[Any, Any]]:
    return [np.full(SIZE, value, "float32")]


@pytest.mark.parametrize("kind", ["SEASGD", "AsyncSGD"])
def test_an_exception_at_any_instruction_of_a_step_lets_no_later_delta_into_its_own(
    kind: str,
) -> None:
    with open_box() as connect:
        worker, reader = connect(), connect()
        trainer: SEASGD | AsyncSGD
        if kind == "SEASGD":
            trainer = SEASGD(worker, "w", weights(0), moving_rate=1)
        else:
            trainer = AsyncSGD(worker, "w", weights(0), learning_rate=1)
        shared = reader.attach("w")
        other = worker.create("other", 2 << 20, "float32")
        before = 0.0

        def step(delta: float) -> None:
            if isinstance(trainer, SEASGD):
                trainer.step(weights(before + delta))
            else:
                trainer.step(weights(-delta), weights(0))

        def interrupted_step() -> None:
            # The server applies these first.
            for _ in range(2):
                other.post.scale(1)
            step(3)

        def next_step() -> None:
            nonlocal before
            step(10)
            worker.list()  # answered when the server has applied the earlier changes of the worker
            found = {float(value) - before for value in np.unique(shared.read())}
            assert found in ({10}, {13})
            before += found.pop()

        files = ("seasgd.py", "async_sgd.py", "pending.py")
        assert interrupt_each_place(interrupted_step, next_step, *files) > 20
        trainer.close()
