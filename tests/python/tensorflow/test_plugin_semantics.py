"""Results equal stock's bit for bit, and no tensor of an edge travels over RPC."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, cluster

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
PULLS = (
    "pushes_alias",
    "pulls_no_memory",
    "pushes_pull",
    "pulls_received",
    "grpc_recv_tensor_calls",
)
COUNTERS = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Run a program under stock TensorFlow, once for all tests, and return its result."""

    @functools.cache
    def run(program: str) -> Any:
        with cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK) as made:
            return made.run(program)

    return run


def run_ours(
    tmp_path: Path, program: str, environment: dict[str, str] | None = None
) -> tuple[Any, COUNTERS]:
    """Run under Farwrite; return the result and the tasks' counters."""
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made:
        result = made.run(program)
        wait_until(lambda: settled(made.stats()))
        return result, made.stats()


def settled(counters: COUNTERS) -> bool:
    """Nothing is under way: what is lent is looked at, and leases come back by and by."""
    lent = total(counters, "leases_out") - total(counters, "leases_returned")
    quiet = total(counters, "waiting_tensors") == total(counters, "fetches") == 0
    return quiet and lent == total(counters, "held_views")


def total(counters: COUNTERS, name: str) -> int:
    return sum(int(stats[name]) for stats in counters.values())


def assert_no_rpc(
    counters: COUNTERS, fabric: str = "shm", client: dict[str, Any] | None = None
) -> None:
    """Check the tasks' counters; `client`: those of a client that has the plug-in, too."""
    assert total(counters, "grpc_recv_tensor_calls") == 0
    assert total(counters, "pushes_pull") == 0
    # A variable that took a received tensor for its value holds the lease for as long.
    out = total(counters, "leases_out") - total(counters, "leases_returned")
    assert out == total(counters, "held_views")
    for name, stats in counters.items():
        assert stats["waiting_tensors"] == 0, name
        assert {link["fabric"] for link in stats["links"]} == {fabric}, name
        assert all(link["reason"] for link in stats["links"]), name
        assert stats["fetches"] == 0, name
        assert stats["read_allocations"] == stats["offers_read"], name
    if fabric != "tcp":
        assert total(counters, "offers_read") == 0
        return
    # Nothing is seen where it lies: every lease was read, and given back when it was.
    assert out == 0
    lent = total(counters, "leases_out") + (client or {}).get("leases_out", 0)
    read = total(counters, "offers_read") + (client or {}).get("offers_read", 0)
    bodies = total(counters, "call_bodies_read") + (client or {}).get("call_bodies_read", 0)
    assert read + bodies == lent and read > 0
    assert total(counters, "bytes_read") > 0


@pytest.mark.parametrize(
    ("policy", "fabric"),
    [
        ("traced", "shm"),
        pytest.param("off", "shm", marks=pytest.mark.nightly),
        ("unified", "tcp"),
    ],
)
def test_v1_sessions(tmp_path: Path, stock: Callable[[str], Any], policy: str, fabric: str) -> None:
    ours, counters = run_ours(
        tmp_path,
        "v1_semantics.py",
        {"FARWRITE_TF_ALLOCATION": policy, "FARWRITE_FABRICS": fabric},
    )
    assert ours == stock("v1_semantics.py")
    assert_no_rpc(counters, fabric)
    for pushed in ("inline", "alias", "serialized", "dead"):
        assert total(counters, f"pushes_{pushed}") > 0
    assert total(counters, "snapshot_tensors") > 0
    # What was fetched is the receiver's own, which it may write into as in stock.
    assert total(counters, "in_place_copies") == (2 if fabric == "shm" else 0)
    assert total(counters, "grpc_feeds") > 0
    zero_copy, staged = (
        total(counters, "zero_copy_tensors"),
        total(counters, "staged_foreign_memory"),
    )
    if policy != "off":
        assert zero_copy > 0
    else:
        assert zero_copy == 0 and staged > 0


@pytest.mark.timeout(240)  # two clusters, on a machine that may be busy
def test_no_kernel_computes_in_a_slice_of_a_received_tensor(
    tmp_path: Path, stock: Callable[[str], Any]
) -> None:
    """TensorFlow takes a slice's memory for its own, which here is another task's."""
    ours, counters = run_ours(tmp_path, "slices.py")
    assert ours == stock("slices.py")
    assert_no_rpc(counters)
    assert total(counters, "pushes_alias") > 0


@pytest.mark.parametrize(("policy", "fabric"), [("unified", "shm"), ("traced", "tcp")])
def test_functions_eager_copies_and_parameter_server_strategy(
    tmp_path: Path, stock: Callable[[str], Any], policy: str, fabric: str
) -> None:
    environment = {"FARWRITE_TF_ALLOCATION": policy, "FARWRITE_FABRICS": fabric}
    ours, counters = run_ours(tmp_path, "tf2_semantics.py", environment)
    assert ours["digests"] == stock("tf2_semantics.py")["digests"]
    assert ours["grpc_recv_tensor_calls"] == 0
    assert ours["in_place_copies"] == (3 if fabric == "shm" else 0)
    assert_no_rpc(counters, fabric, ours)
    # Steps are called over Farwrite: gRPC has what was called before the tasks had met.
    for method in ("run_component_function", "enqueue"):
        assert total(counters, "control_calls") > 10 * total(counters, f"grpc_{method}_calls")


@pytest.mark.slow
@pytest.mark.timeout(240)  # twelve tasks, on a machine that may be busy
def test_training_on_four_tasks_and_checkpoints_of_stock_and_for_stock(tmp_path: Path) -> None:
    """A queue between workers, partitioned variables; each run checks what it restores."""
    jobs = {"ps": 2, "worker": 2}
    saved = {name: str(tmp_path / f"saved_{name}") for name in ("stock", "shm", "tcp", "again")}
    for name in ("stock", "shm", "tcp"):
        (tmp_path / name).mkdir()
    with cluster(tmp_path / "stock", jobs, STOCK) as plain:
        expected = plain.run("training.py", saved["stock"])["digests"]
        for fabric in ("shm", "tcp"):
            environment = {"FARWRITE_FABRICS": fabric}
            with cluster(tmp_path / fabric, jobs, FARWRITE, environment) as made:
                ours = made.run("training.py", saved[fabric], saved["stock"])
                assert ours["digests"] == expected
                assert ours["plugin"]["grpc_recv_tensor_calls"] == 0
                assert_no_rpc(made.stats(), fabric, ours["plugin"])
                assert made.total("pushes_serialized") > 0
        again = plain.run("training.py", saved["again"], saved["shm"], saved["tcp"])
        assert again["digests"] == expected


def test_a_stock_peer_is_served_by_rpc(tmp_path: Path, stock: Callable[[str], Any]) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, protocols={"worker0": STOCK}) as made:
        assert made.run("v1_semantics.py") == stock("v1_semantics.py")
        stats = made.tasks["ps0"].stats()
        assert stats["grpc_recv_tensor_calls"] > 0
        assert stats["pulls_stock_peer"] > 0
        assert stats["pushes_alias"] == 0


@pytest.mark.parametrize(
    "variable", ["FARWRITE_TOKEN", pytest.param("XDG_RUNTIME_DIR", marks=pytest.mark.slow)]
)
def test_another_token_means_rpc_and_says_why(tmp_path: Path, variable: str) -> None:
    """A token that was set, and the cookies of two containers that share their network."""
    tokens = [str(tmp_path / name) for name in ("one", "two")]
    for folder in tokens:
        Path(folder).mkdir()
    environments = {
        task: {variable: token} for task, token in zip(("ps0", "worker0"), tokens, strict=True)
    }
    with cluster(tmp_path, JOBS, FARWRITE, environments=environments) as made:
        result = made.run("steps.py", "20")
        assert result["value"] == result["expected"] and result["failures"] == []
        for task in made.tasks.values():
            stats = task.stats()
            assert stats["pushes_alias"] == 0
            links = stats["links"]
            assert [link["transport"] for link in links] == ["grpc"]
        logs = [task.log.read_text() for task in made.tasks.values()]
        assert any("tokens differ" in log for log in logs)
        if variable == "XDG_RUNTIME_DIR":
            cookies = [f"{folder}/farwrite/token" for folder in tokens]
            assert any(all(cookie in log for cookie in cookies) for log in logs)


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_where_registered_memory_is_exhausted_the_receiver_pulls(
    tmp_path: Path, stock: Callable[[str], Any], fabric: str
) -> None:
    """Some tensors fit, and others do not; with the same results."""
    environment = {"FARWRITE_SEND_LIMIT": "2M", "FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made:
        assert made.run("v1_semantics.py") == stock("v1_semantics.py")
        trained = made.run("steps.py", "20")
        assert trained["value"] == trained["expected"] and trained["failures"] == []
        assert made.total("bytes_pushed") > 8192 * made.total("pushes_inline")
        assert made.total("pulls_no_memory") > 0
        # What nothing asked for, because its step was over, may be missing.
        pulled = made.total("pulls_received")
        assert 0 < pulled == made.total("grpc_recv_tensor_calls") <= made.total("pushes_pull")
        wait_until(lambda: settled(made.stats()))


def test_a_fabric_that_cannot_be_had_is_an_error_that_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="verbs"),
        cluster(tmp_path, {"ps": 1}, FARWRITE, {"FARWRITE_FABRICS": "verbs"}),
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
