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
        optimizers = [torch.optim.SGD(one.parameters(), lr=1) for one in (first, second)]
        with (
            adapter.ModuleSEASGD(connect(), "w", first, optimizers[0]),
            adapter.ModuleSEASGD(connect(), "w", second, optimizers[1]),
        ):
            assert values(second) == {1}


FLOATS = ["float64", "float32", "float16", "bfloat16"]


@pytest.mark.parametrize("name", FLOATS)
def test_parameters_keep_their_dtype_and_change_only_in_exchanges(
    torch: Any, adapter: Any, name: str
) -> None:
    dtype = getattr(torch, name)
    with open_box() as connect:
        module = linear(torch, 1 / 3, dtype=dtype)
        third = torch.tensor(1 / 3, dtype=dtype).item()
        optimizer = torch.optim.SGD(module.parameters(), lr=1)
        with adapter.ModuleSEASGD(
            connect(), "w", module, optimizer, moving_rate=1, period=2
        ) as sgd:
            read = linear(torch, 0, dtype=dtype)
            adapter.read_module(connect(), "w", read)
            assert values(module) == values(read) == {third}
            for parameter in module.parameters():
                torch.nn.init.constant_(parameter, 2 * third)
            sgd.step()
            assert values(module) == {2 * third}
            sgd.step()
            assert values(module) == {third}
            assert sgd.read() == 2
            assert values(module) == {2 * third}
            assert module.weight.dtype == dtype
        kept = np.float64 if name == "float64" else np.float32
        assert connect().attach("w").dtype == kept


def test_a_double_beyond_single_precision_is_exchanged_as_it_is(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        module = linear(torch, 1e300, dtype=torch.float64)
        optimizer = torch.optim.SGD(module.parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer) as sgd:
            sgd.step()
            assert values(module) == {1e300}


@pytest.mark.parametrize("name", ["complex64", "int64", "float8_e5m2"])
def test_what_the_box_cannot_hold_is_refused_before_the_first_step(
    torch: Any, adapter: Any, name: str
) -> None:
    with open_box() as connect:
        module = linear(torch, 0)
        odd = torch.zeros(2).to(getattr(torch, name))
        module.odd = torch.nn.Parameter(odd, requires_grad=name == "complex64")
        optimizer = torch.optim.SGD([module.weight, module.odd], lr=1)
        if name != "complex64":  # frozen, and left out
            with adapter.ModuleSEASGD(connect(), "w", module, optimizer):
                assert connect().attach("w").shape == (6,)
            return
        message = f"the parameter 'odd' is torch.{name}; convert it"
        with pytest.raises(fw.InvalidArgument, match=message):
            adapter.ModuleSEASGD(connect(), "w", module, optimizer)
        assert connect().list() == []


@pytest.mark.parametrize("others", [{"bias": False}, {"dtype": "float64"}, {"dtype": "bfloat16"}])
def test_another_module_is_refused_by_the_name_of_the_parameter(
    torch: Any, adapter: Any, others: dict[str, Any]
) -> None:
    options = {key: getattr(torch, str(value), value) for key, value in others.items()}
    with open_box() as connect:
        modules = [linear(torch, 1), linear(torch, 1, **options)]
        optimizers = [torch.optim.SGD(one.parameters(), lr=1) for one in modules]
        with adapter.ModuleSEASGD(connect(), "w", modules[0], optimizers[0]):
            wrong = "bias" if "bias" in others else "weight"
            with pytest.raises(fw.InvalidArgument, match=f"the tensor '{wrong}'"):
                adapter.ModuleSEASGD(connect(), "w", modules[1], optimizers[1])
            with pytest.raises(fw.InvalidArgument, match=f"the tensor '{wrong}'"):
                adapter.read_module(connect(), "w", modules[1])


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


def test_a_module_trains_on_the_tensors_of_a_version(
    box_server: fw.box.Server, box: fw.box.Client, torch: Any
) -> None:
    """PyTorch knows no read-only memory: what it writes is this process's own copy."""
    module = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.BatchNorm1d(512))
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with box.publisher("module", like=state) as publisher:
        publisher.publish(state)
        with box.subscribe("module").latest(timeout=60) as model:
            before = {name: array.copy() for name, array in model.items()}
            tensors = model.torch()
            module.load_state_dict(tensors, assign=True)
            module.train()
            parameters = [tensor.requires_grad_() for tensor in module.parameters()]
            optimizer = torch.optim.SGD(parameters, lr=0.5)
            module(torch.rand(16, 64)).square().sum().backward()
            optimizer.step()
            assert not torch.equal(tensors["0.weight"], state["0.weight"])
            assert not torch.equal(tensors["1.running_mean"], state["1.running_mean"])
            for name, array in model.items():
                np.testing.assert_array_equal(array, before[name])
            other = model.torch()
            assert torch.equal(other["0.weight"], state["0.weight"])
        with box.subscribe("module").latest(timeout=60) as model:
            np.testing.assert_array_equal(model["0.weight"], before["0.weight"])
        # The tensors hold the version: 4 buffers are enough for the versions that follow.
        for value in range(10):
            publisher.publish({name: torch.full_like(t, value) for name, t in state.items()})
        assert torch.equal(other["0.weight"], state["0.weight"])


@pytest.mark.parametrize("given", ["all", "trained"])
@pytest.mark.parametrize("frozen_here", [True, False])
def test_a_reader_takes_what_workers_with_a_frozen_layer_share(
    torch: Any, adapter: Any, given: str, frozen_here: bool
) -> None:
    def network(value: float, frozen: bool) -> Any:
        module = torch.nn.Sequential(linear(torch, value), linear(torch, value))
        module[0].requires_grad_(not frozen)
        return module

    with open_box() as connect:
        worker, reader = network(1, frozen=True), network(2, frozen=frozen_here)
        optimizer = torch.optim.SGD((worker if given == "all" else worker[1]).parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", worker, optimizer):
            assert connect().attach("w").shape == (9,)
            adapter.read_module(connect(), "w", reader)
        assert (values(reader[0]), values(reader[1])) == ({2}, {1})


def test_not_a_number_is_skipped_by_choice(torch: Any, adapter: Any) -> None:
    with open_box() as connect:
        module = linear(torch, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=1)
        with adapter.ModuleSEASGD(connect(), "w", module, optimizer, nonfinite="skip") as sgd:
            torch.nn.init.constant_(module.bias, float("nan"))
            sgd.step()
            assert values(module) == {1}
