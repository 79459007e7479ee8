"""Publishers and subscribers: whole models, version after version."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from box_process import BoxProcess

import farwrite as fw

MODEL = {
    "dense": {"w": np.zeros((3, 5), "float32"), "b": np.zeros(5, "float64")},
    "steps": np.zeros((), "int64"),
    "layers": [np.zeros(2, "uint8"), np.zeros((0, 4), "float32")],
}


def filled(value: int) -> dict[str, Any]:
    return {
        "dense": {"w": np.full((3, 5), value, "float32"), "b": np.full(5, value, "float64")},
        "steps": np.int64(value),
        "layers": [np.full(2, value, "uint8"), np.zeros((0, 4), "float32")],
    }


def assert_is(model: Any, value: int) -> None:
    expected = filled(value)
    assert list(model) == list(expected)
    for name in ("w", "b"):
        np.testing.assert_array_equal(model["dense"][name], expected["dense"][name])
        assert model["dense"][name].dtype == expected["dense"][name].dtype
    assert model["steps"].shape == ()
    assert model["steps"] == value
    np.testing.assert_array_equal(model["layers"][0], expected["layers"][0])
    assert model["layers"][1].shape == (0, 4)


@pytest.fixture(params=["of a client", "of the server"])
def policy(
    request: pytest.FixtureRequest, box_server: fw.box.Server, box: fw.box.Client
) -> fw.box.Publisher:
    """A publisher, in both of its places."""
    place = box if request.param == "of a client" else box_server
    return place.publisher("policy", like=MODEL)


def test_a_model_arrives_as_it_was_published(box: fw.box.Client, policy: fw.box.Publisher) -> None:
    subscriber = box.subscribe("policy")
    assert (policy.version, subscriber.version, subscriber.name) == (0, 0, "policy")
    assert policy.publish(filled(1)) == 1
    with subscriber.latest(timeout=30) as model:
        assert model.version == 1
        assert_is(model, 1)
        assert not model["dense"]["w"].flags.writeable
    assert policy.publish(filled(2)) == 2
    with subscriber.latest() as model:
        assert (model.version, policy.version) == (2, 2)
        assert_is(model, 2)


def test_a_version_that_is_held_stays(box: fw.box.Client, policy: fw.box.Publisher) -> None:
    policy.publish(filled(1))
    subscriber = box.subscribe("policy")
    with subscriber.latest() as held:
        for value in range(2, 12):
            policy.publish(filled(value))
        assert_is(held, 1)
        with subscriber.latest() as newest:
            assert newest.version == 11
            assert_is(newest, 11)
    copied = held_copy(subscriber)
    policy.publish(filled(12))
    assert_is(copied, 11)
    copied["dense"]["w"][:] = 0  # a copy is the reader's own


def held_copy(subscriber: fw.box.Subscriber) -> Any:
    with subscriber.latest() as model:
        return model.copy()


def held_versions(policy: fw.box.Publisher, subscriber: fw.box.Subscriber) -> list[fw.box.Model]:
    """Publish versions 1 and 2, and pin each."""
    held = []
    for value in (1, 2):
        policy.publish(filled(value))
        held.append(subscriber.latest())
    return held


def test_readers_that_hold_every_buffer_are_told_and_the_publisher_goes_on(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    policy = box_server.publisher("policy", like=MODEL, buffers=3)
    subscriber = box.subscribe("policy")
    held = held_versions(policy, subscriber)
    policy.publish(filled(3))
    if box.server.fabric == "shm":  # over tcp a reader holds its own copy
        with pytest.raises(fw.ResourceExhausted, match="buffers are in use"):
            subscriber.latest(timeout=0)
    assert policy.publish(filled(4)) == 4
    held.pop().close()
    with subscriber.latest() as model:
        assert_is(model, 4)
    assert_is(held[0], 1)


@pytest.mark.parametrize("waits", ["in this thread", "in a loop"])
def test_latest_waits_until_a_reader_gives_its_buffer_back(
    box_server: fw.box.Server, box: fw.box.Client, waits: str
) -> None:
    policy = box_server.publisher("policy", like=MODEL, buffers=3)
    subscriber = box.subscribe("policy")
    held = held_versions(policy, subscriber)
    policy.publish(filled(3))
    later = threading.Timer(0.2, lambda: held.pop().close())
    later.start()
    if waits == "in a loop":
        found = asyncio.run(subscriber.latest_async(timeout=60))
    else:
        found = subscriber.latest(timeout=60)
    with found as model:
        assert_is(model, 3)
    later.join()


def test_a_copy_needs_no_buffer_that_other_readers_hold(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    policy = box_server.publisher("policy", like=MODEL, buffers=3)
    subscriber = box.subscribe("policy")
    held = held_versions(policy, subscriber)
    policy.publish(filled(3), step=30)
    leases = box_server.stats().leases_granted
    assert [model.version for model in held] == [1, 2]
    with subscriber.latest(timeout=60, copy=True) as model:
        assert (model.epoch, model.version, model.step) == (policy.epoch, 3, 30)
        assert_is(model, 3)
        model["dense"]["w"][:] = 0  # the reader's own
    assert_is(asyncio.run(subscriber.latest_async(timeout=60, copy=True)), 3)
    assert box_server.stats().leases_granted == leases


def test_latest_waits_for_the_first_version(box: fw.box.Client, policy: fw.box.Publisher) -> None:
    subscriber = box.subscribe("policy")
    with pytest.raises(fw.DeadlineExceeded):
        subscriber.latest(timeout=0.05)
    later = threading.Timer(0.1, lambda: policy.publish(filled(1)))
    later.start()
    with subscriber.latest(timeout=30) as model:
        assert_is(model, 1)
    later.join()
    epoch, version = subscriber.wait()
    assert (epoch, version) == (policy.epoch, 1)
    with pytest.raises(fw.DeadlineExceeded):
        subscriber.latest(newer_than=(epoch, version), timeout=0.05)
    with subscriber.latest(newer_than=(epoch, 0)) as model:
        assert_is(model, 1)


def test_a_task_reads_versions_until_the_model_is_freed(
    box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    policy.publish(filled(1))
    subscriber = box.subscribe("policy")

    async def take() -> list[int]:
        versions = []
        async for model in subscriber:
            assert_is(model, model.version)
            versions.append(model.version)
            if model.version == 3:
                policy.free()
            else:
                policy.publish(filled(model.version + 1))
        return versions

    assert asyncio.run(asyncio.wait_for(take(), 30)) == [1, 2, 3]


def test_a_loop_reads_versions_until_the_subscriber_closes(
    box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    policy.publish(filled(1))
    subscriber = box.subscribe("policy")
    versions = []
    for model in subscriber:
        versions.append(model.version)
        policy.publish(filled(2))
        if len(versions) == 2:
            subscriber.close()
    assert versions == [1, 2]


def test_subscribe_waits_for_the_publisher(box_server: fw.box.Server, box: fw.box.Client) -> None:
    with pytest.raises(fw.Error, match="policy"):
        box.subscribe("policy", timeout=0)
    later = threading.Timer(0.1, lambda: box_server.publisher("policy", like=MODEL))
    later.start()
    assert box.subscribe("policy").name == "policy"
    later.join()


def test_a_module_of_pytorch_is_published(box: fw.box.Client) -> None:
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)]
    module = torch.nn.Sequential(*layers).to(torch.bfloat16)
    state = module.state_dict()
    with box.publisher("policy", like=state) as publisher:
        publisher.publish(state)
    with box.subscribe("policy").latest() as model:
        tensors = model.torch()
        assert {name: tensor.dtype for name, tensor in tensors.items()} == {
            name: tensor.dtype for name, tensor in state.items()
        }
        other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        other.to(torch.bfloat16).load_state_dict(tensors)
    assert all(torch.equal(other.state_dict()[name], state[name]) for name in state)


def test_a_list_is_a_model(box: fw.box.Client) -> None:
    weights = [np.arange(4.0), np.ones((2, 2), "float32")]
    with box.publisher("weights", like=weights) as publisher:
        publisher.publish(tuple(weights))
    with box.subscribe("weights").latest() as model:
        assert len(model) == 2
        for found, expected in zip(model, weights, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_model_that_differs_is_refused_by_the_name_of_its_tensor(
    box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    wrong_dtype = filled(1)
    wrong_dtype["dense"]["w"] = np.zeros((3, 5), "float64")
    with pytest.raises(fw.InvalidArgument, match=r"'dense/w' has shape .* dtype float64"):
        policy.publish(wrong_dtype)
    wrong_shape = filled(1)
    wrong_shape["layers"][0] = np.zeros(3, "uint8")
    with pytest.raises(fw.InvalidArgument, match=r"'layers/0' has shape \(3,\)"):
        policy.publish(wrong_shape)
    lacking = filled(1)
    del lacking["steps"]
    with pytest.raises(fw.InvalidArgument, match="lacks 'steps'"):
        policy.publish(lacking)
    with pytest.raises(fw.InvalidArgument, match="has 'more'"):
        policy.publish({**filled(1), "more": np.zeros(1)})
    assert policy.version == 0
    assert policy.publish(filled(1)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        '"bytes": 1e400, "tree": ["<f4", [1], 0]',
        '"bytes": -5, "tree": ["<f4", [1], 0]',
        '"bytes": "5", "tree": ["<f4", [1], 0]',
        '"bytes": 99, "tree": ["<f4", [1], 0]',
        '"bytes": 4, "tree": ["<f4", [1e400], 0]',
        '"bytes": 0, "tree": ["<f4", [0, 4611686018427387904], 0]',
        '"bytes": 0, "tree": ["|V0", [18446744073709551616], 0]',
        f'"bytes": 4, "tree": ["<f4", {[1] * 65}, 0]',
        '"bytes": 4, "tree": ["<f4", [1], 1e400]',
    ],
)
def test_a_schema_that_no_model_can_have_is_refused(box: fw.box.Client, fields: str) -> None:
    box.create_bytes("w", 64, '{"model": 1, ' + fields + "}")
    with pytest.raises(fw.InvalidArgument, match="'w' holds no model"):
        box.subscribe("w")


def test_a_tensor_of_more_dimensions_than_readers_can_have_is_refused(box: fw.box.Client) -> None:
    with pytest.raises(fw.InvalidArgument, match="'deep' of the model: the shape has 40"):
        box.publisher("p", {"deep": np.zeros((1,) * 32 + (1,) * 8)})


@pytest.mark.parametrize("description", ["", "weights of layer 1", "[1]", '{"array": 1}'])
def test_a_segment_without_a_schema_is_no_model(box: fw.box.Client, description: str) -> None:
    box.create("w", 4, "float32", description=description)
    with pytest.raises(fw.InvalidArgument, match="'w' holds no model, because no publisher"):
        box.subscribe("w")


def test_a_closed_publisher_does_not_remove_the_model_of_the_next(
    box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    policy.publish(filled(1))
    policy.close()
    with box.publisher("policy", like=MODEL, takeover=True) as later:
        with pytest.raises(fw.FailedPrecondition, match=r"client\.attach\('policy'\)\.free\(\)"):
            policy.free()
        assert later.publish(filled(2)) == 2
        later.free()
        later.close()
        with pytest.raises(fw.FailedPrecondition):
            later.free()
    with pytest.raises(fw.NotFound):
        box.attach("policy", timeout=0)


def test_the_name_of_a_freed_model_is_free(box: fw.box.Client, policy: fw.box.Publisher) -> None:
    policy.publish(filled(1))
    box.attach("policy").free()
    with pytest.raises(fw.NotFound):
        policy.free()
    with box.publisher("policy", like=MODEL) as later:
        assert later.publish(filled(1)) == 1


def test_a_second_publisher_is_refused_while_the_first_lives(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    first = box.publisher("policy", like=MODEL)
    first.publish(filled(1))
    with box_server.connect() as other:
        for takeover in (False, True):
            with pytest.raises(fw.AlreadyExists, match="living publisher"):
                other.publisher("policy", like=MODEL, takeover=takeover)
        first.close()
        with pytest.raises(fw.FailedPrecondition):
            first.publish(filled(2))
        with pytest.raises(fw.AlreadyExists, match="takeover=True"):
            other.publisher("policy", like=MODEL)
        with pytest.raises(fw.InvalidArgument, match="earlier model"):
            other.publisher("policy", like={"w": np.zeros(1)}, takeover=True)
        second = other.publisher("policy", like=MODEL, takeover=True)
        assert second.publish(filled(2)) == 2


def test_a_publisher_that_is_killed_leaves_its_last_version_and_its_name(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    program = """
        model = {"w": np.ones(1000, "float32")}
        publisher = box.publisher("policy", like=model)
        print(publisher.publish(model))
        model["w"][:] = 2
        while True:
            publisher.publish(model)
    """
    with BoxProcess(box_server.endpoint, program) as process:
        assert process.line() == "1"
        subscriber = box.subscribe("policy")
        subscriber.wait(newer_than=(subscriber.wait(timeout=30)[0], 2), timeout=30)
        process.kill()
    like = {"w": np.ones(1000, "float32")}
    subscriber = box.subscribe("policy")
    second = None
    while second is None:
        try:
            second = box.publisher("policy", like=like, takeover=True)
        except fw.AlreadyExists:  # until the server has noticed
            continue
    with subscriber.latest() as model:
        assert set(model["w"]) == {2}
        assert second.publish(like) == model.version + 1


def test_many_readers_see_whole_versions_only(
    box_server: fw.box.Server, box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    policy.publish(filled(1))
    program = """
        subscriber = box.subscribe("policy")
        for model in subscriber:
            value = int(model["steps"])
            assert (model["dense"]["w"] == value).all() and (model["dense"]["b"] == value).all()
            if value == 100:
                print("whole", flush=True)
                break
    """
    with (
        BoxProcess(box_server.endpoint, program) as first,
        BoxProcess(box_server.endpoint, program) as second,
    ):
        for value in range(2, 101):
            policy.publish(filled(value))
        assert (first.line(), second.line()) == ("whole", "whole")


def test_a_closed_version_is_given_back_without_the_garbage_collector(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    policy = box_server.publisher("policy", like=MODEL, buffers=3)
    gc.disable()
    try:
        with box.subscribe("policy") as subscriber:
            for value in range(1, 10):
                policy.publish(filled(value))
                with subscriber.latest(timeout=30) as model:
                    assert_is(model, value)
                give_up = time.monotonic() + 30
                while box_server.stats().leases != 0:
                    assert time.monotonic() < give_up, "the version is held"
                    time.sleep(0.001)
    finally:
        gc.enable()


def test_names_that_differ_only_in_where_a_slash_is_are_two(box_server: fw.box.Server) -> None:
    model = {"a/b": np.full(2, 1.0), "a": {"b": np.full(2, 2.0)}}
    with box_server.connect() as box, box.publisher("policy", like=model) as publisher:
        publisher.publish(model)
        found = box.subscribe("policy").latest(timeout=10)
        assert found["a/b"].tolist() == [1, 1]
        assert found["a"]["b"].tolist() == [2, 2]
        for missing in ("a/b", "a"):
            with pytest.raises(fw.InvalidArgument, match="lacks 'a/b'"):
                publisher.publish({name: model[name] for name in model if name != missing})


def test_a_takeover_matches_tensors_by_their_names(
    box: fw.box.Client, policy: fw.box.Publisher
) -> None:
    policy.publish(filled(1))
    policy.close()
    turned = {
        "steps": np.zeros((), "int64"),
        "layers": [np.zeros(2, "uint8"), np.zeros((0, 4), "float32")],
        "dense": {"b": np.zeros(5, "float64"), "w": np.zeros((3, 5), "float32")},
    }
    with box.publisher("policy", like=turned, takeover=True) as later:
        turned["steps"] = np.int64(2)
        assert later.publish(turned) == 2
    with box.subscribe("policy").latest(timeout=30) as model:
        assert model["steps"] == 2
        assert model["dense"]["w"].shape == (3, 5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.pop("steps"), "lacks 'steps', which the earlier one had"),
        (lambda model: model.update(more=np.zeros(1)), "has 'more', which the earlier one lacked"),
        (lambda model: model["layers"].pop(), "lacks 'layers/1'"),
        (
            lambda model: model["dense"].update(b=np.zeros(6)),
            r"'dense/b' has shape \(6,\) and dtype float64, and the earlier one had \(5,\)",
        ),
        (lambda model: model.update(dense=[]), "'dense' is a list, and the earlier one was a dict"),
        (lambda model: model.update(steps={}), "'steps' is a dict, .* was a tensor"),
    ],
)
def test_a_takeover_by_another_model_names_what_differs(
    box: fw.box.Client, change: Any, message: str
) -> None:
    with box.publisher("policy", like=MODEL) as publisher:
        publisher.publish(filled(1))
    other = filled(1)
    change(other)
    with pytest.raises(fw.InvalidArgument, match=message):
        box.publisher("policy", like=other, takeover=True)


def test_a_model_of_100000_tensors_is_published(box: fw.box.Client) -> None:
    """A mixture of experts."""
    many = {
        f"model.layers.{i // 1000}.mlp.experts.{i % 1000}.gate_projection.weight": np.full(
            (2, 2), i, "float32"
        )
        for i in range(100_000)
    }
    with box.publisher("experts", like=many) as publisher:
        publisher.publish(many)
        with box.subscribe("experts").latest(timeout=60) as model:
            assert len(model) == len(many)
            name = "model.layers.77.mlp.experts.123.gate_projection.weight"
            np.testing.assert_array_equal(model[name], many[name])
            assert model.version == 1
