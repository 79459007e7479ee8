"""Ports of a task: gRPC's own comes first, and the device takes another one."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from cluster import FARWRITE, Task

from farwrite_bench.cluster.process import free_ports


def _two_in_a_row() -> int:
    """Find a free port whose successor is free, too."""
    while True:
        (port,) = free_ports(1)
        # As a device does: a port counts as taken while connections of an earlier listener linger.
        with contextlib.suppress(OSError), socket.socket() as successor:
            successor.bind(("127.0.0.1", port + 1))
            return port


def test_the_device_leaves_the_port_that_the_tasks_server_will_bind(tmp_path: Path) -> None:
    port = _two_in_a_row()
    environment = {"FARWRITE_PORT_RANGE": f"{port}-{port + 1}"}
    task = Task(
        {"worker": [f"127.0.0.1:{port}"]}, "worker", 0, FARWRITE, environment, tmp_path / "log"
    )
    try:
        task.wait_until_up()
        for served in (port, port + 1):
            socket.create_connection(("127.0.0.1", served), 10).close()
    finally:
        task.kill()
