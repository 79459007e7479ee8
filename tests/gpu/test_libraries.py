"""PyTorch, CuPy and JAX hand arrays to Farwrite and take its arrays, without a copy."""

from __future__ import annotations

from typing import Any

import cupy
import jax
import numpy as np
import pytest
import torch

import farwrite as fw
from conftest import Pair

COUNT = 16 << 20
KINDS = {"torch": torch.from_dlpack, "cupy": cupy.from_dlpack, "jax": jax.dlpack.from_dlpack}


def made_by(library: str, value: float) -> Any:
    if library == "torch":
        return torch.full((COUNT,), value, dtype=torch.float32, device="cuda")
    if library == "cupy":
        return cupy.full(COUNT, value, dtype="float32")
    return jax.numpy.full((COUNT,), value, dtype="float32", device=jax.devices("gpu")[0])


def on_host(library: str, array: Any) -> np.ndarray[Any, Any]:
    if library == "torch":
        return array.cpu().numpy()
    return cupy.asnumpy(array) if library == "cupy" else np.asarray(array)


@pytest.mark.parametrize("library", sorted(KINDS))
def test_arrays_cross_in_both_directions(pair: Pair, library: str) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
    pair.near.write(made_by(library, 3), pair.near.lookup("inbox"), notify=1).wait(30)
    assert pair.far.wait_notification(30).tag == 1
    viewed = KINDS[library](inbox.array)
    assert viewed.shape == (COUNT,)
    assert (on_host(library, viewed) == 3).all()
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(np.arange(COUNT, dtype="float32"))
    alias = KINDS[library](pair.far.lookup("outbox").alias())
    assert (on_host(library, alias) == np.arange(COUNT, dtype="float32")).all()


def test_views_share_the_memory(pair: Pair) -> None:
    registered = pair.left.allocate((4, 8), "float32", kind="cuda:0")
    address = registered.array.__cuda_array_interface__["data"][0]
    assert torch.from_dlpack(registered.array).data_ptr() == address
    assert torch.as_tensor(registered.array, device="cuda").data_ptr() == address
    assert cupy.asarray(registered.array).data.ptr == address
    torch.from_dlpack(registered.array).fill_(7)
    torch.cuda.synchronize()
    assert (cupy.asarray(registered.array).get() == 7).all()
    keeps = torch.from_dlpack(registered.array)
    del registered
    assert keeps[0, 0].item() == 7


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_a_write_waits_for_the_stream_that_fills_its_source(pair: Pair, library: str) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(COUNT, "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    for value in range(1, 6):
        if library == "torch":
            source = made_by(library, 0)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                torch.cuda._sleep(50_000_000)
                source.fill_(value)
                pair.near.write(source, target).wait(30)
        else:
            source = made_by(library, 0)
            with cupy.cuda.Stream(non_blocking=True):
                for _ in range(200):
                    source += 1
                source.fill(value)
                pair.near.write(source, target).wait(30)
        seen = np.empty(COUNT, "float32")
        inbox.array.copy_to(seen)
        assert (seen == value).all()


def test_a_read_waits_for_the_stream_that_uses_its_destination(pair: Pair) -> None:
    outbox = pair.left.publish("outbox", pair.left.allocate(COUNT, "float32", kind="cuda:0"))
    outbox.array.copy_from(np.full(COUNT, 9, "float32"))
    remote = pair.far.lookup("outbox")
    destination = made_by("torch", 1)
    torch.cuda._sleep(50_000_000)
    used = destination.clone()  # behind the kernel that sleeps
    remote.read(destination, timeout=30)
    assert (used == 1).all().item()
    assert (destination == 9).all().item()


def test_torch_to_torch_by_the_stream_of_tensors(pair: Pair) -> None:
    with (
        fw.TensorReceiver(pair.far, "edge", shape=COUNT, dtype="float32") as receiver,
        fw.TensorSender(pair.near, "edge") as sender,
    ):
        for value in range(4):
            sender.send(made_by("torch", value)).wait(30)
            arrived = torch.tensor(receiver.receive(30), device="cuda")
            assert (arrived == value).all().item()
            del arrived


def test_bfloat16(pair: Pair) -> None:
    inbox = pair.far.publish("inbox", pair.far.allocate(1024, "uint16", kind="cuda:0"))
    source = torch.full((1024,), 1.5, dtype=torch.bfloat16, device="cuda")
    pair.near.write(source.view(torch.uint16), pair.near.lookup("inbox")).wait(30)
    arrived = torch.from_dlpack(inbox.array).view(torch.bfloat16)
    assert (arrived == 1.5).all().item()


def test_tensors_that_would_need_a_copy_are_refused(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate((8, 8), "float32", kind="cuda:0"))
    target = pair.near.lookup("inbox")
    source = torch.ones((8, 8), device="cuda")
    with pytest.raises(fw.InvalidArgument, match="contiguous"):
        pair.near.write(source.t(), target)
    with pytest.raises(fw.InvalidArgument, match="grad"):
        pair.near.write(source.clone().requires_grad_(), target)
