"""Epochs: versions of one number that name different contents."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farwrite as fw

LIKE = {"w": np.zeros(4, "float32")}


def filled(value: float) -> dict[str, Any]:
    return {"w": np.full(4, value, "float32")}


def serve(folder: Path, **options: Any) -> fw.box.Server:
    return fw.box.serve(memory="8M", pool="2M", snapshot=folder, **options)


@pytest.fixture(params=["of a client", "of the server"])
def place(request: pytest.FixtureRequest, box_server: fw.box.Server, box: fw.box.Client) -> Any:
    """Where a publisher is opened, in both of its places."""
    return box if request.param == "of a client" else box_server


def test_a_version_that_comes_again_after_a_restore_is_new(tmp_path: Path) -> None:
    with serve(tmp_path) as server, server.connect() as box:
        with server.publisher("policy", LIKE) as policy:
            for value in range(1, 6):
                policy.publish(filled(value))
            server.snapshot()
            for value in range(6, 9):
                policy.publish(filled(value), step=value)
        with box.subscribe("policy") as subscriber, subscriber.latest() as model:
            assert (model.version, model.step) == (8, 8)
            had = model
    with serve(tmp_path, restore=True) as server, server.connect() as box:
        subscriber = box.subscribe("policy")
        # What the reader had is not what the box has, although its number is higher.
        with subscriber.latest(newer_than=had, timeout=30) as model:
            assert (model.version, model["w"][0]) == (5, 5)
            assert model.epoch > had.epoch
            restored = (model.epoch, model.version)
        with server.publisher("policy", LIKE, takeover=True) as policy:
            for value in range(6, 9):
                policy.publish(filled(-value))
        with subscriber.latest(newer_than=restored, timeout=30) as model:
            assert (model.version, model["w"][0]) == (8, -8)
            assert model.epoch not in (had.epoch, restored[0])
        with pytest.raises(fw.DeadlineExceeded):
            subscriber.latest(newer_than=model, timeout=0.05)


def test_two_restores_of_one_snapshot_have_two_epochs(tmp_path: Path) -> None:
    with serve(tmp_path) as server, server.connect() as box:
        segment = box.create("w", 4)
        event = box.event("round")
        segment.fill(1)
        event.signal()
        epochs = [(segment.epoch, event.epoch)]
        server.snapshot()
    for _ in range(2):
        with serve(tmp_path, restore=True) as server, server.connect() as box:
            segment = box.attach("w")
            assert segment.version == 1
            epochs.append((segment.epoch, box.event("round").epoch))
    for one in zip(*epochs, strict=True):
        assert 0 not in one
        assert sorted(set(one)) == list(one)


def test_a_box_without_a_snapshot_is_another_box_after_its_restart() -> None:
    with fw.box.serve() as server, server.connect() as box:
        address = server.endpoint
        with server.publisher("policy", LIKE) as policy:
            policy.publish(filled(1))
            policy.publish(filled(2))
        with box.subscribe("policy").latest() as model:
            had = (model.epoch, model.version)
    with (
        fw.box.serve(listen=address) as server,
        fw.box.connect(address) as box,
        server.publisher("policy", LIKE) as policy,
    ):
        subscriber = box.subscribe("policy")
        # Another epoch, but nothing in it yet.
        with pytest.raises(fw.DeadlineExceeded):
            subscriber.latest(newer_than=had, timeout=0.05)
        with pytest.raises(fw.DeadlineExceeded):
            asyncio.run(subscriber.latest_async(newer_than=had, timeout=0.05))
        later = threading.Timer(0.1, lambda: policy.publish(filled(3)))
        later.start()
        with subscriber.latest(newer_than=had, timeout=30) as model:
            assert (model.version, model["w"][0]) == (1, 3)
        later.join()


def test_a_takeover_begins_an_epoch_with_its_first_version(box: fw.box.Client, place: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(1))
    subscriber = box.subscribe("policy")
    held = subscriber.latest()
    with place.publisher("policy", LIKE, takeover=True) as policy:
        # The weights are still the earlier publisher's.
        assert (policy.version, policy.epoch) == (1, held.epoch)
        with pytest.raises(fw.DeadlineExceeded):
            subscriber.latest(newer_than=held, timeout=0.05)
        policy.publish(filled(2))
        with subscriber.latest(newer_than=(held.epoch, 100)) as model:
            assert (model.version, model["w"][0], model.epoch) == (2, 2, policy.epoch)
            assert model.epoch > held.epoch
            epoch = model.epoch
        policy.publish(filled(3))
        with subscriber.latest() as model:
            assert (model.version, model.epoch) == (3, epoch)
    assert (held.version, held["w"][0]) == (1, 1)


def test_a_refused_publish_leaves_the_epoch_to_the_next(box: fw.box.Client, place: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(1))
        epoch = policy.epoch
    with place.publisher("policy", LIKE, takeover=True) as policy:
        with pytest.raises(fw.InvalidArgument):
            policy.publish({"w": np.zeros(5)})
        assert policy.epoch == epoch
        policy.publish(filled(2))
        assert policy.epoch > epoch


def test_a_loop_and_a_task_meet_a_takeover(box: fw.box.Client, place: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(1))
    subscriber = box.subscribe("policy")

    def follow(version: int) -> None:
        with place.publisher("policy", LIKE, takeover=True) as policy:
            policy.publish(filled(version + 1))

    seen = []
    for model in subscriber:
        seen.append((model.epoch, model.version))
        if model.version == 3:
            break
        follow(model.version)

    async def take() -> None:
        async for model in subscriber:
            seen.append((model.epoch, model.version))
            if model.version == 4:
                return
            follow(model.version)

    asyncio.run(asyncio.wait_for(take(), 30))
    assert [version for _, version in seen] == [1, 2, 3, 3, 4]
    assert len({epoch for epoch, _ in seen}) == 4


def test_a_bare_number_does_not_say_of_which_epoch(box: fw.box.Client, place: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(1))
    subscriber = box.subscribe("policy")
    for number in (0, 1, np.int64(1), (1,), (0, 1), (1, -1), "1"):
        with pytest.raises(fw.InvalidArgument, match=r"epoch|version"):
            subscriber.latest(newer_than=number)  # type: ignore[arg-type]
        with pytest.raises(fw.InvalidArgument, match=r"epoch|version"):
            asyncio.run(subscriber.latest_async(newer_than=number))  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [0, -1, 2**63 - 1, -(2**63), np.int32(7)])
def test_a_model_says_the_step_of_its_publisher(box: fw.box.Client, place: Any, step: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(1), step=step)
        subscriber = box.subscribe("policy")
        with subscriber.latest() as model:
            policy.publish(filled(2))
            assert (model.step, model["w"][0]) == (int(step), 1)
            assert f"step {int(step)}" in repr(model)
        with subscriber.latest() as model:
            assert (model.step, model["w"][0]) == (None, 2)
        assert model.step is None  # even when the model is closed
        for wrong in (2**63, 0.5, "1"):
            with pytest.raises(fw.InvalidArgument, match="step"):
                policy.publish(filled(3), step=wrong)
        assert policy.version == 2


def test_a_step_is_that_of_its_version(box: fw.box.Client, place: Any) -> None:
    with place.publisher("policy", LIKE) as policy:
        policy.publish(filled(0), step=0)
        subscriber = box.subscribe("policy")
        seen = []

        def read() -> None:
            for model in subscriber:
                seen.append((model.step, model["w"][0]))
                if model.step == 200:
                    return

        reader = threading.Thread(target=read)
        reader.start()
        for step in range(1, 201):
            policy.publish(filled(step), step=step)
        reader.join()
    assert all(step == weight for step, weight in seen)


def test_a_model_of_an_earlier_release_has_no_step(box: fw.box.Client) -> None:
    from farwrite.box.schema import Schema

    schema = Schema.of("test", LIKE)
    old = box.create_bytes("policy", schema.nbytes, schema.to_json())
    old.write(np.full(4, 1, "float32").view("uint8"))
    with box.publisher("policy", LIKE, takeover=True) as policy:
        with box.subscribe("policy").latest() as model:
            assert (model.step, model["w"][0]) == (None, 1)
        with pytest.raises(fw.InvalidArgument, match="no place for a step"):
            policy.publish(filled(2), step=2)
        assert policy.publish(filled(2)) == 2
        with box.subscribe("policy").latest() as model:
            assert model["w"].tolist() == [2] * 4


def test_waits_of_a_segment_compare_epochs(box: fw.box.Client) -> None:
    segment = box.create("w", 4)
    ones = np.ones(4, "float32")
    segment.write(ones)
    first = segment.epoch
    assert box.list()[0].epoch == first
    with pytest.raises(fw.DeadlineExceeded):
        segment.wait(2, timeout=0.05, epoch=first)
    later = threading.Timer(0.1, lambda: segment.write(ones, new_epoch=True))
    later.start()
    assert segment.wait(100, timeout=30, epoch=first) == 2
    later.join()
    second = segment.epoch
    assert second > first
    assert asyncio.run(segment.wait_async(100, timeout=30, epoch=first)) == 2
    assert segment.read(min_version=100, epoch=first, timeout=30).tolist() == [1] * 4
    assert next(iter(segment.updates(since=100, epoch=first))) == 2
    with segment.lease() as lease:
        assert (lease.epoch, lease.version) == (second, 2)
    for wrong in (0, -1, 2**64):
        with pytest.raises(fw.InvalidArgument, match="epoch"):
            segment.wait(1, epoch=wrong)
    assert segment.accumulate(ones) == 3
    assert segment.epoch == second
