"""TensorFlow's control calls over Farwrite: as stock answers them, and ended with their peer."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, wait_for
from test_plugin_faults import USUAL, restart

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
STEPS = 40


def settings(fabric: str) -> dict[str, str]:
    return {"FARWRITE_TF_CONTROL": "on", "FARWRITE_FABRICS": fabric}


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK) as made:
        return made.run("control.py", "1")


def assert_carried(made: Cluster, at_least: int) -> None:
    called = int(made.tasks["ps0"].stats()["control_calls"])
    asked = int(made.tasks["worker0"].stats()["grpc_control_calls"])
    assert called >= at_least
    # Those before the two tasks had met.
    assert asked < called / 4
    for task in made.tasks.values():
        wait_until(lambda task=task: balanced(task.stats()))


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_calls_of_every_kind_are_answered_as_by_stock(
    tmp_path: Path, stock: Any, fabric: str
) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings(fabric)) as made:
        assert made.run("control.py", str(STEPS)) == stock
        assert_carried(made, 2 * STEPS)  # RunGraph and CleanupGraph


def test_without_the_option_all_calls_go_by_grpc(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_TF_CONTROL": "off"}) as made:
        made.run("control.py", "3")
        assert made.total("control_calls") == 0


def test_a_stock_peer_is_called_by_grpc(tmp_path: Path, stock: Any) -> None:
    protocols = {"ps0": STOCK}
    with cluster(tmp_path, JOBS, FARWRITE, settings("shm,tcp"), protocols) as made:
        assert made.run("control.py", "3") == stock
        assert int(made.tasks["worker0"].stats()["grpc_control_calls"]) > 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize("fabric", [pytest.param("shm", marks=pytest.mark.slow), "tcp"])
def test_a_killed_callee_fails_the_step_and_a_restarted_one_is_called_again(
    tmp_path: Path, fabric: str
) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings(fabric)) as made:
        # Enough steps for the tasks to meet again while the last of them run.
        client = made.start_program("steps.py", "1000")
        for victim in ("ps", "worker", "ps"):
            restart(made, client, victim)
        wait_for(client, "running")
        result = finish(client)
        assert len(result["failures"]) >= 3
        assert [failure for failure in result["failures"] if failure[0] not in USUAL] == []
        assert result["value"] == result["expected"]
        assert made.total("control_calls") > 0
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))


def test_a_stopped_callee_is_waited_for(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings("shm")) as made:
        client = made.start_program("steps.py", "40")
        wait_for(client, "running")
        made.tasks["ps0"].stop()
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(3)
        made.tasks["ps0"].signal(signal.SIGCONT)
        result = finish(client)
        assert result["failures"] == []
        assert result["value"] == result["expected"]
