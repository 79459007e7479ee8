"""Sessions of targets grpc+farwrite://: as stock answers them, and no feed or fetch over gRPC."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster, finish
from faults import balanced, go_on, wait_for

from processes import stop, wait_until

JOBS = {"ps": 1, "worker": 1}
STEPS = 20
ON = {"FARWRITE_TF_CONTROL": "on"}


def settings(fabric: str) -> dict[str, str]:
    return {**ON, "FARWRITE_FABRICS": fabric}


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK) as made:
        return made.run("session_target.py", "grpc", str(STEPS))["seen"]


def assert_equal(seen: dict[str, Any], stock: dict[str, Any]) -> None:
    for name, value in stock.items():
        assert seen[name] == value, name


def assert_quiet(made: Cluster) -> None:
    for task in made.tasks.values():
        wait_until(lambda task=task: balanced(task.stats()))


def end(client: subprocess.Popen[str]) -> None:
    client.kill()
    client.communicate()


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_program_sees_what_it_sees_of_stock(tmp_path: Path, stock: Any, fabric: str) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, settings(fabric)) as made:
        result = made.run("session_target.py", FARWRITE, str(STEPS))
        assert_equal(result["seen"], stock)
        assert result["stats"]["grpc_session_steps"] == 0
        assert result["stats"]["session_steps"] >= STEPS
        assert result["stats"]["session_steps"] == made.total("session_steps_served")
        assert_quiet(made)


def test_no_feed_and_no_fetch_goes_by_grpc(tmp_path: Path) -> None:
    with cluster(tmp_path, {"ps": 1, "worker": 1}, FARWRITE, settings("shm")) as made:
        made.run("session_target.py", "grpc", "1")
        before = int(made.tasks["worker0"].stats()["grpc_feed_bytes"])
        made.run("session_target.py", FARWRITE, "1")
        fed = int(made.tasks["worker0"].stats()["grpc_feed_bytes"]) - before
        assert before > 40e6
        assert fed == 0


def test_without_the_option_steps_go_by_grpc(tmp_path: Path, stock: Any) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_TF_CONTROL": "off"}) as made:
        result = made.run("session_target.py", FARWRITE, "3")
        assert_equal(result["seen"], stock)
        assert result["stats"]["session_steps"] == 0
        assert result["stats"]["grpc_session_steps"] > 3


def test_the_steps_of_a_stock_server_go_by_grpc_and_that_is_logged_once(
    tmp_path: Path, stock: Any
) -> None:
    protocols = {"worker0": STOCK, "ps0": STOCK}
    with cluster(tmp_path, JOBS, FARWRITE, ON, protocols) as made:
        client = made.start_program("session_target.py", FARWRITE, "3")
        output, errors = client.communicate(timeout=240)
        assert client.returncode == 0, errors[-3000:]
        assert '"session_steps": 0' in output
        # The program has three sessions.
        assert errors.count("go over gRPC: the peer has no plug-in") == 3


def test_a_session_of_this_process_moves_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path, {"worker": 1}, FARWRITE, ON) as made:
        result = made.run("session_local.py")
        assert result["value"] == 6.0
        assert result["stats"]["session_steps"] == 0
        assert result["stats"]["grpc_session_steps"] == 0


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_killed_server_ends_the_step_at_once(tmp_path: Path, fabric: str) -> None:
    with cluster(tmp_path, {"worker": 1}, FARWRITE, settings(fabric)) as made:
        client = made.start_program("session_waits.py", FARWRITE)
        wait_for(client, "running")
        wait_until(lambda: made.total("session_steps_served") == 2)
        made.tasks["worker0"].kill()
        go_on(client)
        result = finish(client)
        assert result["error"] == "UnavailableError", result
        assert result["seconds"] < 20  # the step has 30


@pytest.mark.parametrize("fabric", ["shm", pytest.param("tcp", marks=pytest.mark.slow)])
def test_a_killed_client_leaves_nothing_at_the_server(tmp_path: Path, fabric: str) -> None:
    with cluster(tmp_path, {"worker": 1}, FARWRITE, settings(fabric)) as made:
        client = made.start_program("session_waits.py", FARWRITE)
        wait_for(client, "running")
        wait_until(lambda: made.total("session_steps_served") == 2)
        end(client)
        assert_quiet(made)
        again = made.start_program("session_waits.py", FARWRITE)
        wait_for(again, "running")
        end(again)


def test_a_step_ends_at_its_timeout_though_its_server_stopped_behind_the_answer(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, {"worker": 1}, FARWRITE, settings("shm")) as made:
        worker = made.tasks["worker0"]
        client = made.start_program("session_answered.py", FARWRITE, str(1 << 20))
        opener = made.start_program("session_answered.py", FARWRITE, "opens")
        for program in (client, opener):
            wait_for(program, "ready")
        served = made.total("session_steps_served")
        go_on(client)
        wait_for(client, "running")
        wait_until(lambda: made.total("session_steps_served") > served)
        stop(client.pid)
        go_on(opener)
        finish(opener)
        # The answer is lent, and the client has never mapped the server's memory.
        wait_until(lambda: not balanced(worker.stats()))
        worker.stop()
        client.send_signal(signal.SIGCONT)
        assert finish(client) == {"error": ["DeadlineExceededError"]}
        worker.signal(signal.SIGCONT)


def test_an_answer_that_finds_no_room_goes_out_once_room_has_come_back(tmp_path: Path) -> None:
    room = {**settings("shm"), "FARWRITE_SEND_LIMIT": "48M", "FARWRITE_TF_ALLOCATION": "off"}
    with cluster(tmp_path, {"worker": 1}, FARWRITE, room) as made:
        worker = made.tasks["worker0"]
        holder, waiter = (
            made.start_program("session_answered.py", FARWRITE, str(32 << 20)) for _ in range(2)
        )
        openers = [made.start_program("session_answered.py", FARWRITE, "opens") for _ in range(2)]
        for program in (holder, waiter, *openers):
            wait_for(program, "ready")
        go_on(holder)
        wait_for(holder, "running")
        stop(holder.pid)
        go_on(openers[0])
        finish(openers[0])
        wait_until(lambda: not balanced(worker.stats()))  # its answer is lent, and held
        go_on(waiter)
        wait_for(waiter, "running")
        served = made.total("session_steps_served")
        go_on(openers[1])
        wait_until(lambda: made.total("session_steps_served") > served)
        time.sleep(0.3)
        assert waiter.poll() is None
        holder.send_signal(signal.SIGCONT)
        finish(openers[1])
        assert finish(holder) == {"error": []}
        assert finish(waiter) == {"error": []}
        assert worker.stats()["leases_out"] == 2


def test_a_message_beyond_the_limit_of_registered_memory_goes_by_grpc(tmp_path: Path) -> None:
    little = {**settings("shm"), "FARWRITE_SEND_LIMIT": "48M", "FARWRITE_TF_ALLOCATION": "off"}
    with cluster(tmp_path, {"worker": 1}, FARWRITE, little) as made:
        client = made.start_program("session_waits.py", FARWRITE)
        wait_for(client, "running")
        wait_until(lambda: made.total("grpc_feeds") >= 2)
        end(client)
        assert made.total("session_steps_served") == 0
