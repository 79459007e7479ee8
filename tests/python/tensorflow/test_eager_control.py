"""The calls of TensorFlow 2's eager contexts over Farwrite: as stock answers them, and in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, wait_for

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
# More than a stream may have without an answer.
OPERATIONS = 200


def settings(fabric: str) -> dict[str, str]:
    return {"FARWRITE_TF_CONTROL": "on", "FARWRITE_FABRICS": fabric}


def answered(made: Cluster) -> Any:
    """What the coordinator says, whose server has the cluster's own protocol."""
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
        # Those before the tasks had met.
        for method in ("enqueue", "run_component_function", "register_graph", "run_graph"):
            assert made.total(f"grpc_{method}_calls") < 60
        # The contexts are made over gRPC: what it has seen of them, Farwrite's calls know.
        assert made.total("grpc_other_calls") > 0
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))


def test_without_the_option_all_calls_go_by_grpc(tmp_path: Path, stock: Any) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_TF_CONTROL": "off"}) as made:
        assert answered(made) == stock
        assert made.total("control_calls") == 0
        assert made.total("grpc_enqueue_calls") > 4 * OPERATIONS
        assert made.total("grpc_run_component_function_calls") > 0


# Who is stock: the coordinator is the cluster itself.
MIXED = {
    "coordinator": (STOCK, {"ps0": FARWRITE, "worker0": FARWRITE}),
    "server": (FARWRITE, {"ps0": STOCK}),
    "worker": (FARWRITE, {"worker0": STOCK}),
    "all but one server": (STOCK, {"ps0": FARWRITE}),
}


@pytest.mark.parametrize(
    "who",
    [
        "coordinator",
        "server",
        pytest.param("worker", marks=pytest.mark.slow),
        pytest.param("all but one server", marks=pytest.mark.slow),
    ],
)
def test_stock_tasks_of_a_cluster_are_called_by_grpc_and_call_by_it(
    tmp_path: Path, stock: Any, who: str
) -> None:
    protocol, others = MIXED[who]
    with cluster(tmp_path, JOBS, protocol, settings("shm,tcp"), others) as made:
        assert answered(made) == stock
