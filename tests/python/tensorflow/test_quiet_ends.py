"""A job that ends as jobs do logs nothing alarming; a peer that falls silent is named."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from cluster import FARWRITE, Task, cluster, finish
from faults import wait_for

from processes import wait_until

# A device warns of a silence after its detection time, at its next tick: 5 s and 1 s.
LONGER_THAN_A_WARNING_TAKES = 8


def ours(logs: Iterable[str]) -> list[str]:
    """Lines of the library and of the plug-in, but for those of waits on a busy machine.

    INFO of TensorFlow's is off in these tests.
    """
    lines = [line for log in logs for line in log.splitlines()]
    lines = [line for line in lines if "still waiting" not in line and "still trying" not in line]
    return [line for line in lines if line.startswith("farwrite[") or "Farwrite: " in line]


def exit_in_good_order(task: Task) -> None:
    assert task.process.stdin is not None
    task.process.stdin.close()  # the program ends with its input
    assert task.process.wait(60) == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fabric", "end"),
    [
        ("shm", signal.SIGTERM),
        pytest.param("shm", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("tcp", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_normal_end_logs_no_warning(tmp_path: Path, fabric: str, end: signal.Signals) -> None:
    environment = {"FARWRITE_FABRICS": fabric}
    with cluster(tmp_path, {"ps": 2, "worker": 1}, FARWRITE, environment) as made:
        coordinator = made.start_program("coordinator.py")
        _, said = coordinator.communicate(timeout=240)  # the first to go
        assert coordinator.returncode == 0
        made.run("run_metadata.py")  # whose session is closed
        for stats in made.stats().values():
            assert fabric in {link["fabric"] for link in stats["links"]}, "nobody to end it for"
        time.sleep(LONGER_THAN_A_WARNING_TAKES)
        made.tasks["ps0"].signal(end)
        time.sleep(LONGER_THAN_A_WARNING_TAKES)
        exit_in_good_order(made.tasks["worker0"])
        time.sleep(LONGER_THAN_A_WARNING_TAKES)
        exit_in_good_order(made.tasks["ps1"])
    assert ours([said, *(log.read_text() for log in tmp_path.glob("*.log"))]) == []


@pytest.mark.timeout(200)
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_peer_that_falls_silent_is_warned_of_by_its_task(tmp_path: Path, fabric: str) -> None:
    environment = {"FARWRITE_FABRICS": fabric}
    log = tmp_path / "worker0.log"
    with cluster(tmp_path, {"ps": 1, "worker": 1}, FARWRITE, environment) as made:
        client = made.start_program("steps.py", "20")
        wait_for(client, "running")
        made.tasks["ps0"].stop()
        wait_until(lambda: "is silent" in log.read_text())
        made.tasks["ps0"].signal(signal.SIGCONT)
        finish(client)
    warnings = [line for line in ours([log.read_text()]) if "is silent" in line]
    named = r"farwrite\[\d+\] warning: /job:ps/replica:0/task:0 \([\d.]+:\d+\) is silent: .*"
    assert [line for line in warnings if re.fullmatch(named, line)] == warnings
