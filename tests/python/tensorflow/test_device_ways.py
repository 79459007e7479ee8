"""Tensors of devices under other policies, and where no channel is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cluster import FARWRITE, cluster, finish, started
from device_library import device_library
from test_device_memory import JOBS, RIGHT, assert_pushed, steps


@pytest.fixture(scope="module")
def device() -> dict[str, str]:
    """The environment of a process that has the device."""
    return {"FARTEST_LIBRARY": str(device_library())}


@pytest.mark.parametrize("policy", ["traced", "off"])
def test_a_policy_that_registers_little_copies_a_devices_tensors_no_more_often(
    tmp_path: Path, device: dict[str, str], policy: str
) -> None:
    environment = {**device, "FARWRITE_TF_ALLOCATION": policy}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made, steps(made) as client:
        for _ in range(4):
            assert client.run() == RIGHT
        assert_pushed(made)
        assert made.stats()["ps0"]["copies"] == 0


def test_two_servers_of_a_process_hand_over_a_copy(device: dict[str, str]) -> None:
    result = finish(started("device_two_servers.py", [FARWRITE, "{}"], device, subprocess.PIPE))
    assert result["right"]
    counted = result["stats"]
    assert counted["grpc_recv_tensor_calls"] == counted["pushes_pull"] == 0
    # Five steps, each with one edge to a device and one to a host; and one with a list each way.
    assert counted["staged_device_sends"] == 11
    assert counted["staged_device_receives"] == 6
    assert counted["pushes_loopback"] >= 10
    assert counted["device_copies"] == 0
