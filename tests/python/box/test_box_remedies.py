"""What errors about models and versions tell the reader to do, in the words of what they called."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import farwrite as fw

MODEL: dict[str, Any] = {"w": np.ones(4, "float32")}


@pytest.fixture
def policy(box: fw.box.Client) -> fw.box.Publisher:
    """A publisher whose readers can hold one version."""
    publisher = box.publisher("policy", MODEL, buffers=2)
    publisher.publish(MODEL)
    return publisher


@pytest.mark.usefixtures("policy")
def test_a_version_that_does_not_come_is_named_with_the_one_that_is_there(
    box: fw.box.Client,
) -> None:
    subscriber = box.subscribe("policy")
    with subscriber.latest() as model:
        says = r"'policy' has version 1 and has not reached version 2 in time; .* publishes it run"
        with pytest.raises(fw.DeadlineExceeded, match=says):
            subscriber.latest(newer_than=model, timeout=0.01)
        says = (
            r"'policy' at \S+ has version 1 and has not reached version 2 in time; .* publishes it"
        )
        with pytest.raises(fw.DeadlineExceeded, match=says):
            asyncio.run(subscriber.latest_async(newer_than=model, timeout=0.01))


def test_a_model_that_was_never_published_is_told_so(box: fw.box.Client) -> None:
    box.publisher("policy", MODEL)
    subscriber = box.subscribe("policy")
    says = "has version 0, so nothing was written or published there, and has not reached version 1"
    with pytest.raises(fw.DeadlineExceeded, match=says):
        subscriber.latest(timeout=0.01)
    with pytest.raises(fw.DeadlineExceeded, match=says):
        asyncio.run(subscriber.latest_async(timeout=0.01))


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_model_that_is_not_there_is_asked_of_its_publisher(
    timeout: float, box: fw.box.Client
) -> None:
    with pytest.raises(
        (fw.NotFound, fw.DeadlineExceeded),
        match=r"'policy'.*; start the process that .*, check the name \(list\(\) returns those",
    ):
        box.subscribe("policy", timeout=timeout)


@pytest.mark.parametrize("box_server", ["shm"], indirect=True)  # tcp reads it, and holds no buffer
def test_a_reader_without_a_buffer_is_told_of_models_and_arrays(
    policy: fw.box.Publisher, box: fw.box.Client
) -> None:
    subscriber = box.subscribe("policy")
    with subscriber.latest():
        policy.publish(MODEL)
        says = (
            r"buffers are in use: .*; close leases .* buffers to create\(\) .*latest\(copy=True\)"
        )
        with pytest.raises(fw.ResourceExhausted, match=says):
            subscriber.latest(timeout=0.01)


def test_a_model_that_was_freed_is_published_and_subscribed_to_anew(
    policy: fw.box.Publisher, box: fw.box.Client
) -> None:
    subscriber = box.subscribe("policy")
    box.attach("policy").free()
    with pytest.raises(fw.NotFound, match=r"freed .*'policy'; create or publish it anew, and then"):
        subscriber.latest(timeout=5)
    says = r"^publish: a client freed 'policy' with all its versions; .* open another one"
    with pytest.raises(fw.NotFound, match=says):
        policy.publish(MODEL)


def test_a_closed_end_is_opened_again(policy: fw.box.Publisher, box: fw.box.Client) -> None:
    subscriber = box.subscribe("policy")
    assert repr(subscriber) == "<Subscriber of 'policy'>"
    assert repr(policy) == "<Publisher of 'policy'>"
    subscriber.close()
    policy.close()
    assert repr(subscriber) == "<Subscriber of 'policy', closed>"
    assert repr(policy) == "<Publisher of 'policy', closed>"
    for ended in (subscriber, policy):
        with pytest.raises(
            fw.FailedPrecondition, match=r"closed 'policy'; attach, subscribe or open"
        ):
            _ = ended.version


def test_another_model_of_the_name_is_freed_by_the_call_that_the_error_names(
    policy: fw.box.Publisher, box: fw.box.Client
) -> None:
    policy.close()
    says = r"differs: .*; publish under another name, or free it first: client\.attach\('policy'\)"
    with pytest.raises(fw.InvalidArgument, match=says):
        box.publisher("policy", {"b": np.ones(4)}, takeover=True)


class Module:
    """Has what PyTorch's modules have."""

    def state_dict(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("model", "remedy"),
    [
        (Module(), r"the model is Module; give model\.state_dict\(\)"),
        (np.zeros(2), r"the model is ndarray; give \[array\], or let box\.create\(\)"),
        ({"w": np.zeros(2), "b": None}, "'b' of the model is None; leave it out"),
        (3, "the model is int; give a dict or a list"),
    ],
    ids=["module", "array", "none", "number"],
)
def test_what_is_no_model_says_what_to_give(box: fw.box.Client, model: Any, remedy: str) -> None:
    with pytest.raises(fw.InvalidArgument, match=f"publisher: {remedy}"):
        box.publisher("m", like=model)
    publisher = box.publisher("m", like={"w": np.zeros(2)})
    with pytest.raises(fw.InvalidArgument):
        publisher.publish(model)
