"""Which task of a cluster runs where, as examples/cluster/tf_config.py says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cluster_examples import importable

with importable():
    import tf_config as made
    from tf_config import CHIEF, Task


def test_a_hosts_file_has_one_host_in_each_line() -> None:
    assert made.read_hosts("# mine\n\n 10.0.0.1 \n10.0.0.2  # the fast one\n") == [
        "10.0.0.1",
        "10.0.0.2",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("# none\n", "no hosts"), ("a\nb\na\n", "named twice: a;")],
)
def test_a_hosts_file_that_makes_no_cluster_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        made.read_hosts(text)


def test_every_host_has_a_server_and_a_worker_and_the_first_one_the_chief() -> None:
    cluster = made.cluster_of(["a", "b"], 4000)
    assert cluster == {
        "chief": ["a:4002"],
        "ps": ["a:4000", "b:4000"],
        "worker": ["a:4001", "b:4001"],
    }
    assert made.tasks_of(cluster) == {
        Task("ps", 0): "a",
        Task("ps", 1): "b",
        Task("worker", 0): "a",
        Task("worker", 1): "b",
        CHIEF: "a",
    }


def test_no_two_tasks_have_one_address() -> None:
    cluster = made.cluster_of(["a", "b", "c"])
    addresses = [address for job in cluster.values() for address in job]
    assert len(set(addresses)) == len(addresses) == 7


def test_tf_config_names_the_cluster_and_the_task() -> None:
    cluster = made.cluster_of(["a"])
    read: dict[str, Any] = json.loads(made.tf_config(cluster, Task("worker", 0)))
    assert read == {"cluster": cluster, "task": {"type": "worker", "index": 0}}


@pytest.mark.parametrize(
    ("node", "local", "task"),
    [("0", "0", Task("ps", 0)), ("3", "0", Task("ps", 3)), ("3", "1", Task("worker", 3))],
)
def test_slurm_names_the_task(node: str, local: str, task: Task) -> None:
    assert made.slurm_task({"SLURM_NODEID": node, "SLURM_LOCALID": local}) == task


def test_a_third_task_on_a_node_is_refused() -> None:
    with pytest.raises(ValueError, match="--ntasks-per-node=2"):
        made.slurm_task({"SLURM_NODEID": "0", "SLURM_LOCALID": "2"})
