"""Tasks in two network namespaces, which is what two hosts are to everything above the network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import FARWRITE, STOCK, Host, cluster, forker
from faults import balanced

from namespaces import two_hosts
from processes import wait_until

pytestmark = pytest.mark.namespaces

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "0", "no_grpc_proxy": "10.91.0.1,10.91.0.2"}


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    with two_hosts() as made, forker(**ENVIRONMENT):
        first, second = (Host(host.address, host.namespace.path) for host in made)
        yield first, second


def test_tensors_between_hosts_go_by_tcp(tmp_path: Path, hosts: tuple[Host, Host]) -> None:
    there, here = hosts
    with cluster(
        tmp_path,
        {"ps": 1, "worker": 1},
        FARWRITE,
        ENVIRONMENT,
        hosts={"ps0": there, "worker0": here},
    ) as made:
        result = made.run("steps.py", "50", host=here)
        assert result["value"] == result["expected"] and result["failures"] == []
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))
            stats = task.stats()
            assert stats["grpc_recv_tensor_calls"] == 0
            # Shapes are static: the first steps make slots, and later tensors land in them.
            assert stats["landed"] >= 25
            assert stats["landed"] + stats["offers_read"] >= 50
            assert stats["read_allocations"] == stats["offers_read"]
            (link,) = stats["links"]
            assert (link["transport"], link["fabric"]) == ("farwrite", "tcp")
            # Shared memory was tried first, and is not there between hosts.
            assert "shm" in link["reason"]
            assert "go over tcp" in task.log.read_text()


@pytest.mark.slow
def test_each_pair_takes_its_own_way_and_a_client_named_localhost_is_reached(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    there, here = hosts
    values = {}
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        with cluster(
            folder,
            {"ps": 2, "worker": 1},
            protocol,
            ENVIRONMENT,
            hosts={"ps0": here, "ps1": there, "worker0": there},
        ) as made:
            result = made.run("coordinator.py", host=here)
            values[protocol] = result["values"]
            if protocol == STOCK:
                continue
            assert made.total("grpc_recv_tensor_calls") == 0
            fabrics = {
                name: {link["peer"].rpartition(":")[0]: link["fabric"] for link in stats["links"]}
                for name, stats in [*made.stats().items(), ("client", result["plugin"])]
            }
            assert fabrics["worker0"][there.address] == "shm"
            assert fabrics["worker0"][here.address] == "tcp"
            assert fabrics["client"][there.address] == "tcp"
            assert result["plugin"]["landed"] + result["plugin"]["offers_read"] >= 3
    assert values[FARWRITE] == values[STOCK]


def test_a_device_that_listens_for_its_own_host_alone_is_still_reached(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    """The side that can be reached is the one that is connected to."""
    there, here = hosts
    with cluster(
        tmp_path,
        {"ps": 1, "worker": 1},
        FARWRITE,
        ENVIRONMENT,
        environments={"ps0": {"FARWRITE_LISTEN": "127.0.0.1:0"}},
        hosts={"ps0": there, "worker0": here},
    ) as made:
        result = made.run("steps.py", "5", host=here)
        assert result["value"] == result["expected"] and result["failures"] == []
        assert made.total("grpc_recv_tensor_calls") == 0


@pytest.mark.slow
def test_hosts_that_cannot_reach_each_other_say_why(
    tmp_path: Path, hosts: tuple[Host, Host]
) -> None:
    there, here = hosts
    with cluster(
        tmp_path,
        {"ps": 1, "worker": 1},
        FARWRITE,
        {**ENVIRONMENT, "FARWRITE_LISTEN": "127.0.0.1:0"},
        hosts={"ps0": there, "worker0": here},
    ) as made:
        result = made.run("steps.py", "5", host=here)
        assert result["value"] == result["expected"] and result["failures"] == []
        assert made.total("grpc_recv_tensor_calls") > 0
        reasons = [link["reason"] for stats in made.stats().values() for link in stats["links"]]
        assert all("FARWRITE_LISTEN" in reason for reason in reasons), reasons
