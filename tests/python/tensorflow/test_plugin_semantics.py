"""Results equal stock's bit for bit, and no tensor of an edge travels by RPC."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster

JOBS = {"ps": 1, "worker": 1}
COUNTERS = dict[str, dict[str, Any]]


def run_both(
    tmp_path: Path, program: str, environment: dict[str, str] | None = None
) -> tuple[Any, Any, COUNTERS]:
    """Run under stock, then under Farwrite; return both results and the tasks' counters."""
    results = []
    counters: COUNTERS = {}
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        extra = environment if protocol == FARWRITE else None
        with cluster(folder, JOBS, protocol, extra) as made:
            results.append(made.run(program))
            counters = made.stats()
    return results[0], results[1], counters


def total(counters: COUNTERS, name: str) -> int:
    return sum(int(stats[name]) for stats in counters.values())


def assert_no_rpc(counters: COUNTERS) -> None:
    assert total(counters, "grpc_recv_tensor_calls") == 0
    assert total(counters, "pushes_pull") == 0
    # A variable that took a received tensor for its value holds the lease for as long.
    out = total(counters, "leases_out") - total(counters, "leases_returned")
    assert out == total(counters, "held_views")
    for name, stats in counters.items():
        assert stats["waiting_tensors"] == 0, name
        assert {link["fabric"] for link in stats["links"]} == {"shm"}, name


@pytest.mark.parametrize("policy", ["unified", "off"])
def test_v1_sessions(tmp_path: Path, policy: str) -> None:
    stock, ours, counters = run_both(
        tmp_path, "v1_semantics.py", {"FARWRITE_TF_ALLOCATION": policy}
    )
    assert ours == stock
    assert_no_rpc(counters)
    for pushed in ("inline", "alias", "serialized", "dead"):
        assert total(counters, f"pushes_{pushed}") > 0
    assert total(counters, "snapshot_tensors") > 0
    assert total(counters, "in_place_copies") == 2
    assert total(counters, "grpc_feeds") > 0
    zero_copy, staged = (
        total(counters, "zero_copy_tensors"),
        total(counters, "staged_foreign_memory"),
    )
    if policy == "unified":
        assert zero_copy > 0
    else:
        assert zero_copy == 0 and staged > 0


def test_functions_eager_copies_and_parameter_server_strategy(tmp_path: Path) -> None:
    stock, ours, counters = run_both(tmp_path, "tf2_semantics.py")
    assert ours["digests"] == stock["digests"]
    assert ours["grpc_recv_tensor_calls"] == 0
    assert ours["in_place_copies"] == 3
    assert_no_rpc(counters)
    # Eager inputs ride in their own call, not through a rendezvous: counted, as the docs say.
    assert total(counters, "grpc_eager_inputs") > 0


def run_mixed(made: Cluster) -> Any:
    return made.run("v1_semantics.py")


def test_a_stock_peer_is_served_by_rpc(tmp_path: Path) -> None:
    results = []
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        with cluster(folder, JOBS, protocol, protocols={"worker0": STOCK}) as made:
            results.append(run_mixed(made))
            if protocol == FARWRITE:
                stats = made.tasks["ps0"].stats()
                assert stats["grpc_recv_tensor_calls"] > 0
                assert stats["pulls_stock_peer"] > 0
                assert stats["pushes_alias"] == 0
    assert results[1] == results[0]


def test_another_token_means_rpc_and_says_why(tmp_path: Path) -> None:
    with cluster(
        tmp_path,
        JOBS,
        FARWRITE,
        environments={"ps0": {"FARWRITE_TOKEN": "one"}, "worker0": {"FARWRITE_TOKEN": "two"}},
    ) as made:
        result = made.run("steps.py", "20")
        assert result["value"] == result["expected"] and result["failures"] == []
        for task in made.tasks.values():
            stats = task.stats()
            assert stats["pushes_alias"] == 0
            links = stats["links"]
            assert [link["transport"] for link in links] == ["grpc"]
        assert any("token" in task.log.read_text() for task in made.tasks.values())


def test_without_registered_memory_the_receiver_pulls(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_SEND_LIMIT": "64K"}) as made:
        result = made.run("steps.py", "20")
        assert result["value"] == result["expected"] and result["failures"] == []
        assert made.total("pulls_no_memory") > 0
        assert made.total("pulls_received") == made.total("pushes_pull") > 0
        assert made.total("grpc_recv_tensor_calls") == made.total("pushes_pull")


def test_a_fabric_that_cannot_be_had_is_an_error_that_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="verbs"),
        cluster(tmp_path, {"ps": 1}, FARWRITE, {"FARWRITE_FABRIC": "verbs"}),
    ):
        pass


def test_loaded_too_late_says_so_and_stages(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_TEST_LATE": "1"}) as made:
        result = made.run("steps.py", "20")
        assert result["value"] == result["expected"] and result["failures"] == []
        assert made.total("staged_foreign_memory") > 0
        assert made.total("zero_copy_tensors") == 0
        assert made.total("grpc_recv_tensor_calls") == 0
        for task in made.tasks.values():
            assert "after TensorFlow's first allocation" in task.log.read_text()
