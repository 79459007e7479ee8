"""Tensors in the memory of devices: as stock's, with one copy at each end, and none by RPC.

The device is that of tests/tensorflow_device: the processor cannot read its memory, and its copies
take time, overtake each other and can be made to fail.
"""

from __future__ import annotations

import collections
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster
from device_library import device_library
from faults import balanced, wait_for
from test_plugin_faults import USUAL
from test_plugin_semantics import settled

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
COPIES = ("copies_to_host", "bytes_to_host", "copies_to_device", "bytes_to_device")
WARM, STEPS = 4, 10
# A copy rests up to twice as long when it begins, and again in its middle.
SLOW_COPIES = {"FARTEST_DELAY_US": "300"}
Counters = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def device() -> dict[str, str]:
    """The environment of a process that has the device."""
    return {"FARTEST_LIBRARY": str(device_library())}


def of_devices(made: Cluster) -> Counters:
    """What each task's devices did."""
    return {name: task.ask("device counters") for name, task in made.tasks.items()}


def copies(made: Cluster) -> Counters:
    return {
        task: {name: counters[name] for name in COPIES}
        for task, counters in of_devices(made).items()
    }


def growth(before: Counters, after: Counters) -> Counters:
    return {
        task: {name: value - before[task][name] for name, value in counters.items()}
        for task, counters in after.items()
    }


def assert_devices_at_rest(made: Cluster) -> None:
    """Check that no copy is left, and that none wrote into memory that had been freed."""

    def at_rest() -> bool:
        return all(counters["copies_under_way"] == 0 for counters in of_devices(made).values())

    wait_until(at_rest)
    for name, counters in of_devices(made).items():
        assert counters["freed_under_copy"] == 0, name
        assert counters["stray_copies"] == 0, name


def assert_settled(made: Cluster) -> None:
    """Check that nothing went by RecvTensor, and that nothing is left."""
    wait_until(lambda: settled(made.stats()))
    assert made.total("grpc_recv_tensor_calls") == 0
    assert made.total("device_copies") == 0
    assert made.total("staged_device_sends") > 0
    assert made.total("staged_device_receives") > 0
    assert_devices_at_rest(made)


def assert_pushed(made: Cluster) -> None:
    """Check that everything was pushed, and that nothing is left."""
    assert_settled(made)
    assert made.total("pushes_pull") == 0


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory, device: dict[str, str]) -> tuple[Any, Counters]:
    """Stock TensorFlow's results, and its copies."""
    with cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK, device) as made:
        results = made.run("device_semantics.py")
        assert_devices_at_rest(made)
        return results, copies(made)


@pytest.mark.timeout(240)  # two clusters, on a machine that may be busy
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_all_edges_give_what_stock_gives_with_as_many_copies(
    tmp_path: Path, device: dict[str, str], stock: tuple[Any, Counters], fabric: str
) -> None:
    """Stock copies once at each end, and so do we: to the same byte on every task."""
    environment = {**device, **SLOW_COPIES, "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made:
        results = made.run("device_semantics.py")
        assert results == stock[0]
        assert_pushed(made)
        assert copies(made) == stock[1]


class Steps:
    """The client device_steps.py: a tensor goes from the ps' device to the worker's device."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def start(self, what: str = "run") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answered: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answered

    def run(self, what: str = "run") -> dict[str, Any]:
        self.start(what)
        return self.answer()


RIGHT = {"right": True}


@contextmanager
def steps(made: Cluster, master: str = "worker", elements: int = 100_000) -> Iterator[Steps]:
    process = made.start_program("device_steps.py", master, str(elements))
    try:
        wait_for(process, "built")
        yield Steps(process)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_an_edge_between_devices_is_copied_once_at_each_end(
    tmp_path: Path, device: dict[str, str], fabric: str
) -> None:
    environment = {**device, "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made:
        for elements in (100, 100_000):
            with steps(made, "worker", elements) as client:
                assert_copied_once(made, client, 4 * elements)
        assert_pushed(made)
        # What the device has in the host's memory is sent as what any host has.
        assert ways(made, "shape") == {"inline": 2 * (WARM + STEPS)}


def assert_copied_once(made: Cluster, client: Steps, size: int) -> None:
    for _ in range(WARM):
        assert client.run() == RIGHT
    before, plugin_before, ways_before = copies(made), made.stats(), ways(made, "sent")
    for _ in range(STEPS):
        assert client.run() == RIGHT
    # The ps' host gives its device what it sends, and the worker's device gives its host what is
    # fetched.
    once = {
        "copies_to_host": STEPS,
        "bytes_to_host": STEPS * size,
        "copies_to_device": STEPS,
        "bytes_to_device": STEPS * size,
    }
    assert growth(before, copies(made)) == {"ps0": once, "worker0": once}
    after = made.stats()
    for task, counter in (("ps0", "staged_device_sends"), ("worker0", "staged_device_receives")):
        assert after[task][counter] - plugin_before[task][counter] == STEPS
    for task, stats in after.items():
        assert stats["copies"] == plugin_before[task]["copies"], "a copy from host to host"
    ways_before["staged_device"] += STEPS
    assert ways(made, "sent") == ways_before


def ways(made: Cluster, producer: str) -> collections.Counter[str]:
    """How the ps sent what this operation makes, in all graphs."""
    found: collections.Counter[str] = collections.Counter()
    for edge in made.tasks["ps0"].ask("edges"):
        if edge["producer"]["name"] == producer and edge["target_task"] == "worker:0":
            found.update(edge["ways"])
    return found


def each_with(fast: str) -> pytest.MarkDecorator:
    """Run over both fabrics, of which one is fast enough for each check, and over stock.

    Stock shows that the tests are right about stock.
    """
    all_of_them = ((FARWRITE, "shm"), (FARWRITE, "tcp"), (STOCK, "tcp"))
    cases = [
        pytest.param(*one, marks=[] if one == (FARWRITE, fast) else [pytest.mark.slow])
        for one in all_of_them
    ]
    return pytest.mark.parametrize(("protocol", "fabric"), cases)


@each_with("shm")
def test_a_copy_that_fails_fails_its_step_alone(
    tmp_path: Path, device: dict[str, str], protocol: str, fabric: str
) -> None:
    environment = {**device, "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, protocol, environment) as made, steps(made) as client:
        assert client.run() == RIGHT
        used = of_devices(made)
        for task, direction, where in (
            ("ps0", "to_host", "to the host"),
            ("worker0", "to_device", "to the device"),
        ):
            made.tasks[task].ask(f"device fail {direction} 1")
            failed = client.run()
            assert failed.get("error") == "InternalError", failed
            # Of what fails at the receiver stock says only that it could not parse the tensor.
            if protocol == FARWRITE or task == "ps0":
                assert f"FARTEST: a copy {where} failed" in failed["message"]
            assert client.run() == RIGHT
        made.tasks["worker0"].ask("device limit 0")
        refused = client.run()
        error = "ResourceExhaustedError" if protocol == FARWRITE else "InternalError"
        assert refused.get("error") == error, refused
        made.tasks["worker0"].ask(f"device limit {1 << 30}")
        assert client.run() == RIGHT
        assert_devices_at_rest(made)
        assert_nothing_more_in_use(made, used)
        if protocol == FARWRITE:
            assert_pushed(made)


def assert_nothing_more_in_use(made: Cluster, before: Counters) -> None:
    """Check that memory of devices that a step used was given back."""
    for name in made.tasks:
        task, used = made.tasks[name], before[name]["bytes_in_use"]
        wait_until(lambda task=task, used=used: task.ask("device counters")["bytes_in_use"] <= used)


def hold(made: Cluster, task: str, direction: str) -> None:
    made.tasks[task].ask(f"device hold {direction} 1")


def wait_until_held(made: Cluster, task: str) -> None:
    wait_until(lambda: made.tasks[task].ask("device counters")["held_copies"] == 1)


@each_with("shm")
def test_a_step_that_is_given_up_in_the_middle_of_a_copy_frees_nothing_too_early(
    tmp_path: Path, device: dict[str, str], protocol: str, fabric: str
) -> None:
    environment = {**device, "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, protocol, environment) as made, steps(made) as client:
        assert client.run() == RIGHT
        used = of_devices(made)
        for task, direction in (("ps0", "to_host"), ("worker0", "to_device")):
            hold(made, task, direction)
            client.start("run 1500")
            wait_until_held(made, task)
            time.sleep(2)  # the step ends while the copy is held, or waits for it
            made.tasks[task].ask("device release")
            given_up = client.answer()
            assert given_up.get("error") == "DeadlineExceededError", given_up
            for _ in range(3):
                assert client.run() == RIGHT
        assert_devices_at_rest(made)
        assert_nothing_more_in_use(made, used)
        if protocol == FARWRITE:
            assert_pushed(made)


@each_with("tcp")
def test_steps_that_are_given_up_at_any_time_leave_nothing(
    tmp_path: Path, device: dict[str, str], protocol: str, fabric: str
) -> None:
    environment = {**device, "FARTEST_DELAY_US": "3000", "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, protocol, environment) as made, steps(made) as client:
        assert client.run() == RIGHT
        used = of_devices(made)
        outcomes = client.run("storm 60")
        assert set(outcomes) <= {"right: True", "DeadlineExceededError"}
        assert outcomes["DeadlineExceededError"] > 0
        assert client.run() == RIGHT
        assert_devices_at_rest(made)
        assert_nothing_more_in_use(made, used)
        if protocol == FARWRITE:
            assert_pushed(made)


@pytest.mark.parametrize(
    ("victim", "survivor", "direction"),
    [("ps0", "worker0", "to_device"), ("worker0", "ps0", "to_host")],
)
def test_a_peer_that_is_killed_during_a_copy_fails_the_step_and_harms_nothing(
    tmp_path: Path, device: dict[str, str], victim: str, survivor: str, direction: str
) -> None:
    master = survivor.rstrip("0")
    with cluster(tmp_path, JOBS, FARWRITE, device) as made, steps(made, master) as client:
        assert client.run() == RIGHT
        used = of_devices(made)
        hold(made, survivor, direction)
        client.start()
        wait_until_held(made, survivor)
        made.tasks[victim].kill()
        made.tasks[survivor].ask("device release")
        ended = client.answer()
        # The receiver may have all that it needs, and then the step ends well.
        assert ended == RIGHT or ended.get("error") in USUAL, ended
        made.start(victim.rstrip("0"), 0).wait_until_up()
        client.run("reopen")
        wait_until(lambda: client.run("run 20000") == RIGHT)
        # A push to a peer that is just ending may have become a pull; no push is one from here on.
        pulls = made.total("pushes_pull")
        assert client.run("run 20000") == RIGHT
        assert_settled(made)
        assert made.total("pushes_pull") == pulls
        assert_nothing_more_in_use(made, used)
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_a_tensor_that_registered_memory_has_no_room_for_is_pulled(
    tmp_path: Path, device: dict[str, str], fabric: str
) -> None:
    environment = {**device, "FARWRITE_SEND_LIMIT": "2M", "FARWRITE_FABRICS": fabric}
    with (
        cluster(tmp_path, JOBS, FARWRITE, environment) as made,
        steps(made, elements=1_000_000) as client,
    ):
        for _ in range(STEPS):
            assert client.run() == RIGHT
        stats = made.tasks["ps0"].stats()
        assert stats["pulls_no_memory"] == stats["grpc_recv_tensor_calls"] == STEPS
        assert made.total("staged_device_receives") == 0
        assert copies(made)["ps0"]["copies_to_host"] == STEPS
        assert_devices_at_rest(made)


def test_a_stock_peer_gets_the_tensors_of_a_device_by_rpc(
    tmp_path: Path, device: dict[str, str]
) -> None:
    protocols = {"worker0": STOCK}
    with (
        cluster(tmp_path, JOBS, FARWRITE, device, protocols) as made,
        steps(made) as client,
    ):
        for _ in range(STEPS):
            assert client.run() == RIGHT
        stats = made.tasks["ps0"].stats()
        assert stats["grpc_recv_tensor_calls"] >= STEPS
        assert stats["staged_device_sends"] == 0
        assert copies(made)["ps0"]["copies_to_host"] == STEPS
        assert_devices_at_rest(made)


@pytest.mark.timeout(240)
def test_variables_on_a_host_are_trained_on_the_devices_of_two_workers(
    tmp_path: Path, device: dict[str, str]
) -> None:
    results = {}
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        environment = {**device, **SLOW_COPIES}
        with cluster(folder, {"ps": 1, "worker": 2}, protocol, environment) as made:
            learned = made.run("device_training.py")
            results[protocol] = learned, copies(made)
            assert all(of_devices(made)[f"worker{n}"]["kernels"] > 0 for n in range(2))
            if protocol == FARWRITE:
                assert_pushed(made)
    assert results[FARWRITE] == results[STOCK]


@pytest.mark.timeout(240)
def test_functions_eager_copies_and_parameter_server_strategy(
    tmp_path: Path, device: dict[str, str]
) -> None:
    results = {}
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        with cluster(folder, JOBS, protocol, {**device, **SLOW_COPIES}) as made:
            answered = made.run("device_functions.py")
            results[protocol] = answered["digests"]
            if protocol == FARWRITE:
                assert answered["grpc_recv_tensor_calls"] == 0
                assert_pushed(made)
    assert results[FARWRITE] == results[STOCK]
