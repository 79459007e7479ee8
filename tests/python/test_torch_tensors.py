"""PyTorch's tensors and dtypes where arrays are taken. Without PyTorch these tests are skipped."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair

NAMES = ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float16", "float32", "bool", "complex64"]


@pytest.fixture
def torch() -> Any:
    pytest.importorskip("ml_dtypes")
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_goes_where_the_box_takes_it(pair: Pair, torch: Any, name: str) -> None:
    dtype = getattr(torch, name)
    tensor = torch.tensor([[1, 0, 2], [0, 4, 8]]).to(dtype)
    octets = tensor.view(torch.uint8).numpy().tobytes()
    with fw.TensorReceiver(pair.far, "edge", (2, 3), dtype) as receiver:
        sender = fw.TensorSender(pair.near, "edge")
        sender.send(tensor).wait(10)
        received = receiver.receive(10)
        assert received.dtype.name == name
        assert received.tobytes() == octets
        del received
        sender.close()
    inbox = pair.left.publish("inbox", pair.left.allocate((2, 3), dtype))
    assert inbox.dtype.name == name
    inbox.array[...] = tensor.view(torch.uint8).numpy().view(inbox.dtype)
    out = torch.zeros((2, 3)).to(dtype)
    pair.far.lookup("inbox").read(out)
    assert out.view(torch.uint8).numpy().tobytes() == octets
    with fw.box.serve() as server, server.connect() as box:
        with box.publisher("model", like={"w": tensor}) as publisher:
            publisher.publish({"w": tensor})
        with box.subscribe("model").latest() as model:
            assert model.torch()["w"].dtype is dtype
            assert model["w"].tobytes() == octets
        assert box.create("w", (2, 3), dtype).dtype.name == name


def test_a_parameter_is_sent_as_it_is_now(pair: Pair, torch: Any) -> None:
    parameter = torch.nn.Parameter(torch.arange(4.0))
    with fw.TensorReceiver(pair.far, "edge") as receiver:
        sender = fw.TensorSender(pair.near, "edge")
        sender.send(parameter)
        sender.send(parameter * 2)  # which records gradients, too
        assert receiver.receive(10).tolist() == [0, 1, 2, 3]
        assert receiver.receive(10).tolist() == [0, 2, 4, 6]
        sender.close()


def test_an_empty_tensor_arrives(pair: Pair, torch: Any) -> None:
    with fw.TensorReceiver(pair.far, "edge") as receiver:
        sender = fw.TensorSender(pair.near, "edge")
        sender.send(torch.empty((0, 3), dtype=torch.bfloat16))
        assert receiver.receive(10).shape == (0, 3)
        sender.close()


def test_what_has_no_elements_in_a_row_says_what_to_do(pair: Pair, torch: Any) -> None:
    for tensor, remedy in {
        torch.ones(3).to_sparse(): "is sparse; give x.to_dense",
        torch.ones(3, dtype=torch.complex64).conj(): "resolve_conj",
        torch.ones(3, dtype=torch.complex64).conj().imag: "resolve_neg",
        torch.empty(3, device="meta"): "copy it to the CPU first",
        torch.ones(2, 3).T: "x.contiguous",
    }.items():
        with pytest.raises(fw.InvalidArgument, match=remedy):
            pair.left.register(tensor)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_without_ml_dtypes_the_error_says_what_to_install(
    pair: Pair, torch: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.import_module

    def import_module(asked: str, package: str | None = None) -> Any:
        if asked == "ml_dtypes":
            raise ImportError(asked)
        return found(asked, package)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(fw.InvalidArgument, match="pip install ml_dtypes"):
        pair.left.register(torch.zeros(2).to(getattr(torch, name)))


def test_other_dtypes_are_refused_by_name(pair: Pair, torch: Any) -> None:
    for dtype in (torch.qint8, "float8_none", "flot32"):
        with pytest.raises(fw.InvalidArgument, match="is not a NumPy dtype"):
            pair.left.allocate(2, dtype)
    assert pair.left.allocate(2, "bfloat16").array.astype(np.float32).tolist() == [0, 0]
