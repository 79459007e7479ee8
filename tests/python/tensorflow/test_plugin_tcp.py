"""Faults in the middle of a read from another host's memory, and what forcing a fabric means."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import FARWRITE, Cluster, cluster
from faults import balanced, wait_for

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
TCP = {"FARWRITE_FABRICS": "tcp"}
READS = {**TCP, "FARWRITE_TF_LANDING": "off"}  # or the second step's tensor would land
MEGABYTES = 256
STEP_MILLISECONDS = 7000  # longer than a device's detection time: silence is not death


@contextmanager
def large_steps(made: Cluster) -> Iterator[subprocess.Popen[str]]:
    client = made.start_program("large.py", str(MEGABYTES), str(STEP_MILLISECONDS))
    try:
        wait_for(client, "ready")
        yield client
    finally:
        client.kill()
        client.communicate()


def begin(client: subprocess.Popen[str]) -> None:
    assert client.stdin is not None
    client.stdin.write("\n")
    client.stdin.flush()


def outcome(client: subprocess.Popen[str]) -> dict[str, Any]:
    assert client.stdout is not None
    said: dict[str, Any] = json.loads(client.stdout.readline())
    return said


def stop_in_a_read(made: Cluster, client: subprocess.Popen[str]) -> None:
    """Begin a step and stop the sender while the worker reads from it."""
    sender, receiver = made.tasks["ps0"], made.tasks["worker0"]
    for _ in range(50):
        read = receiver.stats()["offers_read"]
        begin(client)
        while (stats := receiver.stats())["fetches"] == 0 and stats["offers_read"] == read:
            pass
        sender.stop()
        time.sleep(0.3)  # what is in the sockets arrives
        if receiver.stats()["fetches"] == 1:
            return
        sender.signal(signal.SIGCONT)
        assert outcome(client) == {"value": 7.0}
    raise AssertionError("no read was long enough to be stopped")


def test_a_sender_killed_in_a_read_ends_the_step_and_nothing_else(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, READS) as made:
        receiver = made.tasks["worker0"]
        with large_steps(made) as client:
            stop_in_a_read(made, client)
            made.tasks["ps0"].kill()
            said = outcome(client)
            assert said.get("error") in {"UnavailableError", "AbortedError"}, said
            wait_until(lambda: balanced(receiver.stats()))
            # The tensor that was being filled has gone, too.
            wait_until(lambda: receiver.stats()["arena"]["used"] < MEGABYTES << 20)
        made.start("ps", 0).wait_until_up()
        result = made.run("steps.py", "5")
        assert result["value"] == result["expected"]
        assert receiver.stats()["grpc_recv_tensor_calls"] == 0


def test_a_step_aborted_in_a_read_leaves_it_its_memory(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, JOBS, FARWRITE, READS) as made,
        large_steps(made) as client,
    ):
        sender, receiver = made.tasks["ps0"], made.tasks["worker0"]
        stop_in_a_read(made, client)
        assert outcome(client)["error"] == "DeadlineExceededError"
        # Nothing waits for it any more, and its bytes still have where to go.
        assert receiver.stats()["fetches"] == 1
        assert receiver.stats()["arena"]["used"] >= MEGABYTES << 20
        sender.signal(signal.SIGCONT)
        for task in made.tasks.values():
            wait_until(lambda task=task: balanced(task.stats()))
        wait_until(lambda: receiver.stats()["arena"]["used"] < MEGABYTES << 20)
        begin(client)
        assert outcome(client) == {"value": 7.0}


def test_a_peer_that_cannot_use_the_forced_fabric_is_an_error(tmp_path: Path) -> None:
    with cluster(
        tmp_path,
        JOBS,
        FARWRITE,
        environments={"ps0": {"FARWRITE_FABRICS": "shm"}, "worker0": TCP},
    ) as made:
        client = made.start_program("large.py", "1", "60000")
        try:
            wait_for(client, "ready")
            begin(client)
            said = outcome(client)
        finally:
            client.kill()
            client.communicate()
        assert said.get("error") == "UnavailableError", said
        assert "FARWRITE_FABRICS" in said["message"] and "no fabric in common" in said["message"]
        assert made.total("grpc_recv_tensor_calls") == 0


def test_a_device_that_listens_everywhere_is_reached_by_its_tasks_address(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {**TCP, "FARWRITE_LISTEN": "0.0.0.0:0"}) as made:
        result = made.run("steps.py", "5")
        for stats in made.stats().values():
            assert [link["peer"].rpartition(":")[0] for link in stats["links"]] == ["127.0.0.1"]
        assert result["value"] == result["expected"] and result["failures"] == []
        assert made.total("grpc_recv_tensor_calls") == 0
