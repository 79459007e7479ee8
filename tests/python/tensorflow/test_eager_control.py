"""The calls of TensorFlow 2's eager contexts by Farwrite: as stock answers them, and in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, eventually, wait_for

JOBS = {"ps": 1, "worker": 1}
OPERATIONS = 60


def settings(fabric: str) -> dict[str, str]:
    return {"FARWRITE_TF_CONTROL": "on", "FARWRITE_FABRICS": fabric}


def answered(made: Cluster) -> Any:
    client = made.start_program("eager_control.py", str(OPERATIONS))
    wait_for(client, "running")
    return finish(client)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK) as made:
        return answered(made)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_calls_of_every_kind_are_answered_as_by_stock(
    tmp_path: Path, stock: Any, fabric: str
) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings(fabric)) as made:
        assert answered(made) == stock
        assert made.total("control_calls") > 4 * OPERATIONS
        for task in made.tasks.values():
            eventually(lambda task=task: balanced(task.stats()))


def test_without_the_option_all_calls_go_by_grpc(tmp_path: Path, stock: Any) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_TF_CONTROL": "off"}) as made:
        assert answered(made) == stock
        assert made.total("control_calls") == 0


@pytest.mark.parametrize("task", ["ps0", "worker0"])
def test_a_stock_task_is_called_by_grpc(tmp_path: Path, stock: Any, task: str) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings("shm,tcp"), {task: STOCK}) as made:
        assert answered(made) == stock
