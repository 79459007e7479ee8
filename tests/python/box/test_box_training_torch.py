"""The PyTorch adapter. Without PyTorch these tests are skipped."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from boxes import open_box

import farwrite as fw


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def adapter(torch: Any) -> Any:
    return importlib.import_module("farwrite.box.training.torch")


def linear(torch: Any, value: float, **options: Any) -> Any:
    module = torch.nn.Linear(2, 3, **options)
    for parameter in module.parameters():
        torch.nn.init.constant_(parameter, value)
    return module


def values(module: Any) -> set[float]:
    return {value for one in module.parameters() for value in one.detach().flatten().tolist()}


def test_a_step_moves_module_and_shared_weights_together(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        module = linear(torch, 0)
        optimizer = torch.optim.SGD(module.parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer, moving_rate=0.25) as sgd:
            for parameter in module.parameters():
                parameter.grad = torch.full_like(parameter, -8)
            optimizer.step()
            assert values(module) == {8}
            sgd.step()
            assert values(module) == {6}
            assert sgd.read() == 2
            assert values(module) == {2}
        np.testing.assert_array_equal(connect().attach("w").read(), np.full(9, 2))


def test_a_module_trains_on_after_a_step(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        torch.manual_seed(0)
        module = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.5)
        inputs = torch.randn(64, 2)
        answers = inputs @ torch.tensor([[1.0], [-2.0]]) + 3
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer) as sgd:
            for _ in range(200):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(module(inputs), answers).backward()
                optimizer.step()
                sgd.step()
        shared = torch.nn.Linear(2, 1)
        adapter.read_module(connect(), "w", shared)
        assert torch.nn.functional.mse_loss(shared(inputs), answers).item() < 1e-3


def test_a_later_worker_starts_from_the_shared_weights(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        first, second = linear(torch, 1), linear(torch, 2)
        for module in (first, second):
            optimizer = torch.optim.SGD(module.parameters(), lr=1)
            adapter.ModuleSEASGD(connect(), "w", module, optimizer).close()
        assert values(second) == {1}


def test_bfloat16_parameters_are_converted_there_and_back(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        module = linear(torch, 0, dtype=torch.bfloat16)
        optimizer = torch.optim.SGD(module.parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer, moving_rate=0.5) as sgd:
            for parameter in module.parameters():
                torch.nn.init.constant_(parameter, 4)
            sgd.step()
        assert module.weight.dtype == torch.bfloat16
        assert values(module) == {2}


def test_only_what_the_optimizer_updates_is_exchanged(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        module = torch.nn.Sequential(linear(torch, 0), linear(torch, 0))
        optimizer = torch.optim.SGD(module[1].parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer):
            assert connect().attach("w").shape == (9,)


def test_an_optimizer_of_another_module_is_refused(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        optimizer = torch.optim.SGD(linear(torch, 0).parameters(), lr=1)
        with pytest.raises(fw.InvalidArgument, match="updates 2 parameters and 0 of them"):
            adapter.ModuleSEASGD(connect(), "w", linear(torch, 0), optimizer)
