"""Killed, stopped and restarted tasks; steps that end badly; ten thousand that end well."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, go_on, wait_for

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}


# How a step ends whose task was killed.
USUAL = {"UnavailableError", "AbortedError", "FailedPreconditionError", "InternalError"}


def restart(made: Cluster, client: subprocess.Popen[str], victim: str) -> None:
    """Kill a task while steps run, and start it again."""
    wait_for(client, "running")
    made.tasks[f"{victim}0"].kill()
    made.start(victim, 0).wait_until_up()


def assert_recovered(made: Cluster, result: dict[str, Any], restarts: int) -> None:
    assert len(result["failures"]) >= restarts, "no step noticed that a task was killed"
    assert result["value"] == result["expected"]
    assert [failure for failure in result["failures"] if failure[0] not in USUAL] == []
    for kind, message in result["failures"]:
        # By this text TensorFlow's own recovery knows which task has ended.
        if kind == "UnavailableError" and "Farwrite: " in message:
            assert "GRPC error information from remote target /job:" in message, message
    for task in made.tasks.values():
        wait_until(lambda task=task: balanced(task.stats()))
        assert task.stats()["grpc_recv_tensor_calls"] == 0
        assert task.stats()["received"] > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_killed_tasks_fail_the_step_and_restarted_ones_join(tmp_path: Path, fabric: str) -> None:
    victims = ("ps", "worker", "worker", "ps", "ps")
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRICS": fabric}) as made:
        client = made.start_program("steps.py", "40")
        for victim in victims:
            restart(made, client, victim)
        wait_for(client, "running")
        assert_recovered(made, finish(client), len(victims))


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("victim", ["ps", "worker"])
def test_fifty_restarts_leave_nothing_with_the_survivor(
    tmp_path: Path, victim: str, fabric: str
) -> None:
    survivor = {"ps": "worker0", "worker": "ps0"}[victim]
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRICS": fabric}) as made:
        client = made.start_program("steps.py", "40")
        for _ in range(10):
            restart(made, client, victim)
        wait_for(client, "running")
        before = made.tasks[survivor].stats()
        for _ in range(40):
            made.tasks[f"{victim}0"].kill()
            made.start(victim, 0).wait_until_up()
            wait_for(client, "running")
        assert_recovered(made, finish(client), 50)
        assert_no_growth(before, made.tasks[survivor].stats(), resident=64 << 20)


def test_a_stopped_task_fails_nothing(tmp_path: Path) -> None:
    """Longer than a device's detection time: silence is not death."""
    with contextlib.ExitStack() as stack:
        clusters, clients = [], []
        for fabric in ("shm", "tcp"):
            folder = tmp_path / fabric
            folder.mkdir()
            environment = {"FARWRITE_FABRICS": fabric}
            made = stack.enter_context(cluster(folder, JOBS, FARWRITE, environment))
            clusters.append(made)
            clients.append(made.start_program("steps.py", "200"))
            wait_for(clients[-1], "running")
        for name in ("ps0", "worker0"):
            for made in clusters:
                made.tasks[name].stop()
            time.sleep(7)
            for made in clusters:
                made.tasks[name].signal(signal.SIGCONT)
        for made, client in zip(clusters, clients, strict=True):
            result = finish(client)
            assert result["failures"] == []
            assert result["value"] == result["expected"]
            for task in made.tasks.values():
                wait_until(lambda task=task: balanced(task.stats()))


def assert_no_growth(before: dict[str, Any], after: dict[str, Any], resident: int) -> None:
    """Compare two readings of a task's counters; `resident`: by how much it may vary."""
    assert after["descriptors"] <= before["descriptors"]
    assert after["arena"]["used"] <= before["arena"]["used"] + (1 << 20)
    assert after["arena"]["reserved"] == before["arena"]["reserved"]
    assert after["resident"] <= before["resident"] + resident


def storm(made: Cluster, warm: int, rounds: int) -> None:
    """Give up steps whose tensors are on the way: right or TensorFlow's error; nothing stays.

    In the end their client is killed.
    """
    client = made.start_program("storm.py", str(warm), str(rounds))
    wait_for(client, f"did {warm}")
    for task in made.tasks.values():
        wait_until(lambda task=task: balanced(task.stats()))
    before = made.stats()
    go_on(client)
    wait_for(client, f"did {rounds}")
    for name, task in made.tasks.items():
        wait_until(lambda task=task: balanced(task.stats()))
        # Aborted kernels may still be at it, and the client gives its handles back by and by.
        most = before[name]["arena"]["used"] + (1 << 20)
        wait_until(lambda task=task, most=most: task.stats()["arena"]["used"] <= most)
        most = before[name]["descriptors"] + 2
        wait_until(lambda task=task, most=most: task.stats()["descriptors"] <= most)
        wait_until(lambda task=task: task.stats()["landing"]["held"] == 0)
    go_on(client)
    wait_for(client, "")
    assert client.stdout is not None
    result = json.loads(client.stdout.readline())
    assert result["wrong"] == []
    given_up = {kind for kind in result["outcomes"] if not kind.endswith("done")}
    assert {kind.partition(":")[0] for kind in given_up} == {"deadline", "closed", "cancelled"}
    enough = made.total("received") + 200
    go_on(client)
    wait_until(lambda: made.total("received") > enough)
    client.kill()
    client.communicate()
    for task in made.tasks.values():
        wait_until(lambda task=task: balanced(task.stats()))


@pytest.mark.slow
@pytest.mark.timeout(240)  # three clusters, on a machine that may be busy
def test_steps_that_end_badly_end_as_in_stock_and_leave_nothing(tmp_path: Path) -> None:
    results = {}
    for name in ("stock", "shm", "tcp"):
        folder = tmp_path / name
        folder.mkdir()
        protocol = STOCK if name == "stock" else FARWRITE
        with cluster(folder, JOBS, protocol, {"FARWRITE_FABRICS": name}) as made:
            results[name] = made.run("sessions.py")
            if protocol == FARWRITE:
                storm(made, 10, 25)
                for task in made.tasks.values():
                    wait_until(lambda task=task: balanced(task.stats()))
                    assert task.stats()["grpc_recv_tensor_calls"] == 0
                assert (made.total("offers_read") > 0) == (name == "tcp")
    assert results["shm"] == results["stock"]
    assert results["tcp"] == results["stock"]
    assert set(results["stock"]["errors"]) == {"deadline", "kernel", "closed"}


@pytest.mark.nightly  # 20 s
def test_a_step_that_waits_for_thousands_of_tensors_can_be_aborted(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS) as made:
        result = made.run("many_receives.py", "6000", seconds=60)
        assert result == {"error": "DeadlineExceededError", "after": -1.0}
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fabric",
    [
        pytest.param("shm", marks=pytest.mark.slow),
        pytest.param("tcp", marks=pytest.mark.nightly),
    ],
)
def test_ten_thousand_steps_leave_no_descriptor_and_no_memory(tmp_path: Path, fabric: str) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRICS": fabric}) as made:
        client = made.start_program("soak.py", "2000", "8000")
        wait_for(client, "did 2000")
        before = made.stats()
        go_on(client)
        wait_for(client, "did 8000")
        for name, task in made.tasks.items():
            wait_until(lambda task=task: balanced(task.stats()))
            after = task.stats()
            # 8,000 steps of 400 KB: a leak of one tensor in a hundred would be 16 MB.
            assert_no_growth(before[name], after, resident=16 << 20)
            assert after["grpc_recv_tensor_calls"] == 0
        go_on(client)
        finish(client)
