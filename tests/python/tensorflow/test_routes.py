"""Clusters that change, routes that two tasks see differently, and whom an error names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, cluster, finish
from faults import go_on, wait_for

from processes import wait_until

# Where the route of a ps to worker 0 may fail on that side alone.
STAGES = ("unmet", "unknown", "stock", "refused", "unclear", "late")
# How the receiver's step then fails: it cannot call its sender, or has no verdict.
FAILURES = {
    "unknown": "cannot exchange handshakes with /job:worker/replica:0/task:0",
    "unclear": "the peer announced a connection and did not connect",
}
SIZE = 40_000


@pytest.mark.timeout(300)
def test_tasks_may_leave_the_cluster_come_back_and_be_replaced(tmp_path: Path) -> None:
    scenarios = ("back_again", "replaced", "added")
    values = {}
    for protocol in (STOCK, FARWRITE):
        folder = tmp_path / protocol
        folder.mkdir()
        with cluster(folder, {"worker": 3}, protocol) as made:
            # One client at a time. A stock server that makes the context of one eager client frees
            # its `collective_executor_mgr`, which the contexts of other clients still point to.
            results = [made.run("changing.py", scenario) for scenario in scenarios]
            values[protocol] = [result["values"] for result in results]
            if protocol == FARWRITE:
                for result in results:
                    assert result["plugin"]["received"] > 0
    assert values[FARWRITE] == values[STOCK]


def test_a_receive_ends_though_the_cluster_changes_while_its_sender_cannot_push(
    tmp_path: Path,
) -> None:
    # The client hides its address, and does not introduce itself to worker 1.
    relays = {("client", "worker1"): "renamed"}
    with cluster(tmp_path, {"worker": 3}, FARWRITE, relays=relays) as made:
        result = made.run("changing.py", "pending")
        assert made.meetings()["client", "worker1"] > 0
        assert result["values"][0] == 4.0 * 300_000
        # By the cluster that the receive began with, after that was replaced.
        assert result["plugin"]["route_questions"] > 0
        assert result["plugin"]["pulls_unpushed"] > 0


def test_servers_of_one_process_reach_a_client_there_that_hides_its_address(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path, {"worker": 1}, FARWRITE) as made:
        result = made.run("changing.py", "one_process")
        assert result["values"] == [[3.0 * 300_000, 9.0 * 300_000]] * 2
        # A sender that does not find the client keeps the tensor until it is asked whether it does.
        plugin = result["plugin"]
        assert (plugin["route_questions"], plugin["pulls_received"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_route_that_fails_on_one_side_alone_ends_no_step_without_an_error(
    tmp_path: Path,
) -> None:
    relays = {(f"ps{n}", "worker0"): stage for n, stage in enumerate(STAGES)}
    # A ps that cannot call the worker, which does not introduce itself either.
    unknown = f"ps{STAGES.index('unknown')}"
    relays[unknown, "worker0"] = "unmet"
    relays["worker0", unknown] = "renamed"
    jobs = {"ps": len(STAGES), "worker": 1}
    with cluster(tmp_path, jobs, FARWRITE, relays=relays) as made:
        results: dict[str, Any] = made.run("one_way.py", seconds=240)
        right = [[SIZE + 2.0, 2.0 * SIZE + 4.0, 8.0]] * 3
        for n, stage in enumerate(STAGES):
            assert results[f"from ps{n}"] == right, f"the sender's route fails: {stage}"
        for n, stage in enumerate(STAGES):
            result = results[f"to ps{n}"]
            if stage not in FAILURES:
                assert result == right, f"the receiver's route fails: {stage}"
                continue
            assert result[0] == "UnavailableError", result
            assert "remote target /job:worker/replica:0/task:0" in result[1]
            assert FAILURES[stage] in result[1]
        assert all(made.meetings().values()), made.meetings()
        for stage in ("stock", "refused"):
            assert made.tasks[f"ps{STAGES.index(stage)}"].stats()["pulls_stock_peer"] > 0
        receiver = made.tasks["worker0"].stats()
        assert receiver["route_questions"] > 0
        assert receiver["pulls_unpushed"] > 0


@pytest.mark.timeout(300)
def test_a_coordinator_knows_a_dead_ps_from_a_dead_worker(tmp_path: Path) -> None:
    for victim in ("ps", "worker"):
        folder = tmp_path / victim
        folder.mkdir()
        with cluster(folder, {"ps": 1, "worker": 2}, FARWRITE) as made:
            client = made.start_program("coordinator_faults.py", victim)
            wait_for(client, "running")
            made.tasks[f"{victim}0"].kill()
            if victim == "worker":
                made.start("worker", 0).wait_until_up()
            assert client.stdin is not None
            client.stdin.close()
            client.stdin = None
            result = finish(client, 120)
            if victim == "ps":
                assert result["ps_failure"], result
                assert not result["worker_failure"], result
            else:
                assert result["error"] is None, result
                assert result["done"] > 20
            assert result["wrong"] == 0


@pytest.mark.timeout(300)
def test_a_sender_far_ahead_of_its_receiver_keeps_what_is_too_much(tmp_path: Path) -> None:
    # 72 MB, of which a receiver takes 64 MiB before they are requested, and then 24 MB.
    first, second = 9_000, 3_000
    with cluster(tmp_path, {"ps": 1, "worker": 1}, FARWRITE) as made:
        client = made.start_program("far_ahead.py", str(first), str(second))
        wait_for(client, f"made {first}")
        # All of them are there, so the receiver says that it takes no more.
        receiver, sender = made.tasks["ps0"], made.tasks["worker0"]
        wait_until(lambda: receiver.stats()["waiting_tensors"] >= first)
        go_on(client)
        wait_for(client, f"made {second}")
        go_on(client)
        result = finish(client, 240)
        assert result["values"] == result["expected"]
        # Three tensors each time around.
        assert 0 < sender.stats()["pulls_backlog"] < 3 * (first + second)
        assert receiver.stats()["pulls_received"] == sender.stats()["pushes_pull"]
        # It pushes again when its receiver has caught up.
        client = made.start_program("far_ahead.py", "10")
        wait_for(client, "made 10")
        go_on(client)
        assert finish(client, 60)["values"] == [90.0]
        wait_until(lambda: receiver.stats()["waiting_tensors"] == 0)
