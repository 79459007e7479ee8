"""Ports: what devices take without being told, where there are few."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from farwrite_experiments.cluster.machines import why_no_namespaces
from farwrite_experiments.cluster.namespace import Namespace

pytestmark = pytest.mark.namespaces

FEW = "40000 40063"

LAUNCHER = """
import json, socket
import farwrite as fw

def picked(count, reuse):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports

# As a launcher that gives a port to each of its tasks, and then starts them.
tasks = [*picked(12, 0), *picked(12, 1)]
devices = [fw.Device(fabrics=["tcp"]) for _ in range(4)] + [fw.Device() for _ in range(4)]
channels = []
for near, far in zip(devices[::2], devices[1::2]):
    channels += [near.connect(far.endpoint), far.accept(10)]
taken = []
for port in sorted(set(tasks)):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        taken.append(f"{port}: {error}")
fabrics = [channel.peer.fabric for channel in channels]
print(json.dumps({"taken": taken, "fabrics": sorted(set(fabrics))}))
for device in devices:
    device.close(5)
"""


def test_devices_leave_the_ports_that_a_launcher_has_found_for_later_tasks() -> None:
    if (reason := why_no_namespaces()) is not None:
        pytest.skip(f"no network namespaces: {reason}")
    with Namespace() as network:
        network.run("ip", "link", "set", "lo", "up")
        network.run("sh", "-c", f"echo {FEW} > /proc/sys/net/ipv4/ip_local_port_range")
        command = ["nsenter", f"--net={network.path}", "--", sys.executable, "-c", LAUNCHER]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"taken": [], "fabrics": ["shm", "tcp"]}
