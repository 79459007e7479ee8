"""Publishers that do not get as far as a version, are stopped, or are replaced."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from box_process import BoxProcess
from box_servers import other_process

import farwrite as fw
from farwrite.box import server as box_server_module
from processes import stop, wait_until

MODEL = {"w": np.ones(1000, "float32")}
OTHER = {"other": np.ones(10, "float64")}


@pytest.mark.parametrize("like", [MODEL, OTHER])
def test_a_publisher_without_a_version_leaves_its_name_to_the_next(
    box: fw.box.Client, like: dict[str, np.ndarray]
) -> None:
    box.publisher("policy", like=MODEL).close()
    with box.publisher("policy", like=like) as publisher:
        assert publisher.publish(like) == 1
        with box.subscribe("policy").latest(timeout=30) as model:
            assert list(model) == list(like)
    with pytest.raises(fw.AlreadyExists, match="takeover=True"):
        box.publisher("policy", like=like)


def created(box: fw.box.Client, name: str) -> bool:
    """Create it, unless the server or an earlier attempt is late."""
    with contextlib.suppress(fw.DeadlineExceeded, fw.AlreadyExists):
        box.create_bytes(name, 100)
        return True
    return False


@pytest.mark.parametrize("description", ["", "x" * 10_000])
def test_a_segment_whose_creation_was_given_up_goes_again(description: str) -> None:
    with (
        other_process() as (endpoint, process),
        fw.box.connect(endpoint, timeout=1, segment_bytes=4 << 20) as hasty,
        fw.box.connect(endpoint, segment_bytes=4 << 20) as box,
    ):
        stop(process)
        try:
            with pytest.raises(fw.DeadlineExceeded):
                hasty.create_bytes("w", 100, description)
        finally:
            os.kill(process, signal.SIGCONT)
        # The server takes the requests of a client in order: the creation came before this one.
        wait_until(lambda: created(hasty, "later"))
        wait_until(lambda: [info.name for info in box.list()] == ["later"])


@pytest.mark.parametrize("before", ["nobody", "one that closed"])
def test_a_takeover_by_force_does_without_a_living_publisher(
    box: fw.box.Client, before: str
) -> None:
    if before == "one that closed":
        with box.publisher("policy", like=MODEL) as first:
            first.publish(MODEL)
    with box.publisher("policy", like=MODEL, takeover="force") as publisher:
        assert publisher.publish(MODEL) == (1 if before == "nobody" else 2)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("end", ["killed", "freed"])
def test_a_callback_gets_the_error_that_ends_its_calls(fabric: str, end: str) -> None:
    with (
        other_process() as (endpoint, process),
        fw.box.connect(endpoint, fabrics=[fabric], segment_bytes=4 << 20) as box,
    ):
        publisher = box.publisher("policy", like=MODEL)
        event = box.event("event")
        models: queue.Queue[object] = queue.Queue()
        signals: queue.Queue[object] = queue.Queue()
        watch = box.subscribe("policy").on_version(models.put)
        event.on_signal(signals.put)
        publisher.publish(MODEL)
        event.signal()
        assert (models.get(timeout=60), signals.get(timeout=60)) == (1, 1)
        if end == "killed":
            os.kill(process, signal.SIGKILL)
        else:
            publisher.free()
            event.free()
        expected = (fw.PeerDead, fw.Unavailable) if end == "killed" else fw.NotFound
        assert isinstance(models.get(timeout=60), expected)
        assert isinstance(signals.get(timeout=60), expected)
        assert watch.closed


def test_a_callback_gets_no_error_when_its_own_client_closes(
    box_server: fw.box.Server,
) -> None:
    called: list[object] = []
    with box_server.connect() as box, box.publisher("policy", like=MODEL):
        watch = box.subscribe("policy").on_version(called.append)
    wait_until(lambda: watch.closed)
    assert not called


def test_leases_of_a_stopped_process_lock_nobody_out_and_stay_as_they_are() -> None:
    with (
        fw.box.serve(memory="64M", pool="4M", detection_time=0.5) as server,
        server.connect(fabrics=["shm"]) as box,
    ):
        like = {"w": np.zeros(1000, "float32")}
        publisher = box.publisher("policy", like=like, buffers=3)
        subscriber = box.subscribe("policy")
        program = """
            subscriber = box.subscribe("policy")
            model = subscriber.latest(timeout=60)
            print(model.version)
            sys.stdin.readline()
            print(set(model["w"].tolist()))
            model.close()
            with subscriber.latest(timeout=60) as model:
                print(set(model["w"].tolist()))
            sys.stdin.readline()
        """
        with contextlib.ExitStack() as readers:
            held = []
            for value in (1, 2):
                publisher.publish({"w": np.full(1000, value, "float32")})
                process = readers.enter_context(BoxProcess(server.endpoint, program))
                assert process.line() == str(value)
                held.append(process)
            publisher.publish({"w": np.full(1000, 3, "float32")})
            with pytest.raises(fw.ResourceExhausted):
                subscriber.latest(timeout=0)
            for process in held:
                stop(process.pid)
            with subscriber.latest(timeout=60) as model:
                assert set(model["w"]) == {3}
            for value in range(4, 20):
                publisher.publish({"w": np.full(1000, value, "float32")})
                with subscriber.latest(timeout=60) as model:
                    assert set(model["w"]) == {value}
            assert server.stats().leases >= 2
            for value, process in enumerate(held, 1):
                os.kill(process.pid, signal.SIGCONT)
                process.tell()
                assert process.line() == str({float(value)})
                assert process.line() == "{19.0}"
            wait_until(lambda: server.stats().leases == 0)
            # The memory of the buffers that were set aside is free again.
            assert server.stats().segment_bytes <= 3 * publisher.nbytes + 3 * 64 + 64


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_forced_takeover_fences_a_stopped_publisher_off(fabric: str) -> None:
    program = """
        from farwrite import FailedPrecondition
        model = {"w": np.ones(1000, "float32")}
        publisher = box.publisher("policy", like=model)
        print(publisher.publish(model))
        sys.stdin.readline()
        for call in (lambda: publisher.publish(model), publisher.free):
            try:
                call()
            except FailedPrecondition as error:
                print("taken" if "by force" in str(error) else error)
        publisher.close()
        print("closed")
    """
    with (
        fw.box.serve(memory="64M", pool="4M", fabrics=[fabric], detection_time=0.5) as server,
        server.connect() as box,
        BoxProcess(server.endpoint, program) as process,
    ):
        assert process.line() == "1"
        subscriber = box.subscribe("policy")
        assert subscriber.publisher().state == "alive"
        stop(process.pid)
        wait_until(lambda: subscriber.publisher().state == "silent")
        first = subscriber.publisher().age
        assert first is not None
        wait_until(lambda: subscriber.publisher().age > first)
        with pytest.raises(fw.AlreadyExists, match="takeover='force'"):
            box.publisher("policy", like=MODEL, takeover=True)
        later = box.publisher("policy", like=MODEL, takeover="force")
        assert later.publish(MODEL) == 2
        assert subscriber.publisher().state == "alive"
        os.kill(process.pid, signal.SIGCONT)
        process.tell()
        assert [process.line() for _ in range(3)] == ["taken", "taken", "closed"]
        assert later.publish(MODEL) == 3
        assert subscriber.publisher().state == "alive"


@pytest.mark.parametrize("place", ["a client's", "the server's"])
def test_a_publisher_of_this_process_is_fenced_off(
    box_server: fw.box.Server, box: fw.box.Client, place: str
) -> None:
    first = (box if place == "a client's" else box_server).publisher("policy", like=MODEL)
    subscriber = box.subscribe("policy")
    assert subscriber.publisher() == fw.box.PublisherState("alive", None)
    first.publish(MODEL)
    with box.publisher("policy", like=MODEL, takeover="force") as second:
        epoch = first.epoch
        with pytest.raises(fw.FailedPrecondition, match="taken 'policy' over by force"):
            first.publish(MODEL)
        assert second.publish(MODEL) == 2
        assert second.epoch != epoch
    assert subscriber.publisher().state == "gone"
    with pytest.raises(fw.InvalidArgument, match="takeover 'yes' is not known"):
        box.publisher("policy", like=MODEL, takeover="yes")  # type: ignore[arg-type]


def test_a_segment_fences_those_off_who_write_with_it(box: fw.box.Client) -> None:
    segment, fence = box.create("w", (4,)), box.event("fence")
    assert segment.write(np.ones(4, "float32"), fence=fence._segment) == 1
    fence.free()
    with pytest.raises(fw.NotFound):
        segment.write(np.zeros(4, "float32"), fence=fence._segment)
    np.testing.assert_array_equal(segment.read(), np.ones(4))


@pytest.mark.parametrize("closes", ["a signal handler", "another thread"])
def test_a_server_closes_while_its_own_client_connects(
    closes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = box_server_module.open_client
    ended: list[str] = []

    def close() -> None:
        server.close(0)
        ended.append(closes)

    def connect_and_close(*arguments: Any, **keywords: Any) -> fw.box.Client:
        client = connect(*arguments, **keywords)
        if closes == "a signal handler":  # which runs in the thread that waits
            close()
        else:
            closing = threading.Thread(target=close, daemon=True)
            closing.start()
            closing.join(20)
        return client

    def publish() -> None:
        with pytest.raises(fw.FailedPrecondition, match="publisher: the server is closed"):
            server.publisher("policy", like=MODEL)
        ended.append("publisher")

    monkeypatch.setattr(box_server_module, "open_client", connect_and_close)
    with fw.box.serve(memory="8M", pool="2M") as server:
        publishing = threading.Thread(target=publish, daemon=True)
        publishing.start()
        publishing.join(30)
        assert ended == [closes, "publisher"]


def test_of_two_own_clients_that_connect_at_once_one_stays(
    box_server: fw.box.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, made, both = box_server_module.open_client, [], threading.Barrier(2)

    def connect_together(*arguments: Any, **keywords: Any) -> fw.box.Client:
        both.wait(30)
        made.append(connect(*arguments, **keywords))
        return made[-1]

    def publish(name: str) -> int:
        return box_server.publisher(name, like=MODEL).publish(MODEL)

    monkeypatch.setattr(box_server_module, "open_client", connect_together)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(publish, ("one", "two"))) == [1, 1]
    assert publish("three") == 1
    assert sorted("closed" in repr(client) for client in made) == [False, True]


def test_a_server_that_cannot_close_in_a_callback_stays_whole(box_server: fw.box.Server) -> None:
    publisher = box_server.publisher("policy", like=MODEL)
    answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def close(_: object) -> None:
        try:
            box_server.close()
            answers.put(None)
        except fw.Error as error:
            answers.put(error)

    with publisher._segment.on_update(close):
        publisher.publish(MODEL)
        assert isinstance(answers.get(timeout=30), fw.FailedPrecondition)
    assert publisher.publish(MODEL) == 2
    with box_server.publisher("another", like=MODEL) as another:
        assert another.publish(MODEL) == 1
