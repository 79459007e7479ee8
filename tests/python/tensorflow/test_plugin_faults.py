"""Killed, stopped and restarted tasks; steps that end badly; ten thousand that end well."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, eventually, wait_for

JOBS = {"ps": 1, "worker": 1}


@pytest.mark.parametrize(
    ("victim", "fabric"), [("ps", "shm"), ("worker", "shm"), ("worker", "tcp")]
)
def test_a_killed_task_fails_the_step_and_a_restarted_one_joins(
    tmp_path: Path, victim: str, fabric: str
) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRIC": fabric}) as made:
        client = made.start_program("steps.py", "40")
        wait_for(client, "running")
        made.tasks[f"{victim}0"].kill()
        made.start(victim, 0).wait_until_up()
        result = finish(client)
        assert result["failures"], "no step noticed that a task was killed"
        assert result["value"] == result["expected"]
        usual = {"UnavailableError", "AbortedError", "FailedPreconditionError", "InternalError"}
        assert {kind for kind, _ in result["failures"]} <= usual
        for task in made.tasks.values():
            eventually(lambda task=task: balanced(task.stats()))
            assert task.stats()["grpc_recv_tensor_calls"] == 0
            assert task.stats()["received"] > 0


def test_a_stopped_task_fails_nothing(tmp_path: Path) -> None:
    """Longer than a device's detection time: silence is not death."""
    with cluster(tmp_path, JOBS) as made:
        client = made.start_program("steps.py", "200")
        wait_for(client, "running")
        for task in made.tasks.values():
            task.signal(signal.SIGSTOP)
            time.sleep(7)
            task.signal(signal.SIGCONT)
        result = finish(client)
        assert result["failures"] == []
        assert result["value"] == result["expected"]
        for task in made.tasks.values():
            eventually(lambda task=task: balanced(task.stats()))


def run_sessions(made: Cluster) -> Any:
    return made.run("sessions.py")


def test_steps_that_end_badly_end_as_in_stock_and_leave_nothing(tmp_path: Path) -> None:
    results = {}
    for name in ("stock", "shm", "tcp"):
        folder = tmp_path / name
        folder.mkdir()
        protocol = STOCK if name == "stock" else FARWRITE
        with cluster(folder, JOBS, protocol, {"FARWRITE_FABRIC": name}) as made:
            results[name] = run_sessions(made)
            if protocol == FARWRITE:
                for task in made.tasks.values():
                    eventually(lambda task=task: balanced(task.stats()))
                    assert task.stats()["grpc_recv_tensor_calls"] == 0
                assert (made.total("offers_read") > 0) == (name == "tcp")
    assert results["shm"] == results["stock"]
    assert results["tcp"] == results["stock"]
    assert set(results["stock"]["errors"]) == {"deadline", "kernel", "closed"}


def test_a_step_that_waits_for_thousands_of_tensors_can_be_aborted(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS) as made:
        result = made.run("many_receives.py", "6000", seconds=60)
        assert result == {"error": "DeadlineExceededError", "after": -1.0}
        for task in made.tasks.values():
            eventually(lambda task=task: balanced(task.stats()))


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_ten_thousand_steps_leave_no_descriptor_and_no_memory(tmp_path: Path, fabric: str) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRIC": fabric}) as made:
        client = made.start_program("soak.py", "2000", "8000")
        wait_for(client, "did 2000")
        before = made.stats()
        assert client.stdin is not None
        client.stdin.write("\n")
        client.stdin.flush()
        wait_for(client, "did 8000")
        for name, task in made.tasks.items():
            eventually(lambda task=task: balanced(task.stats()))
            after = task.stats()
            assert after["descriptors"] <= before[name]["descriptors"]
            assert after["arena"]["used"] <= before[name]["arena"]["used"] + (1 << 20)
            assert after["arena"]["reserved"] == before[name]["arena"]["reserved"]
            # 8,000 steps of 400 KB: a leak of one tensor in a hundred would be 16 MB.
            assert after["resident"] <= before[name]["resident"] + (16 << 20)
            assert after["grpc_recv_tensor_calls"] == 0
        client.stdin.write("\n")
        client.stdin.flush()
        finish(client)
