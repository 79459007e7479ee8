"""A received tensor that is sent on, or kept and read by others, is copied at most once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, Cluster, cluster
from faults import balanced

from processes import wait_until

JOBS = {"ps": 1, "worker": 3}
SENDER = "worker0"
"""The task that passes on what the ps sends it, to the other two workers."""
TENSOR_BYTES = 160_000
TIMES = 5
QUEUED = 12
"""More than an edge's slots."""
STEPS = (
    (TIMES, "chain"),
    (1, "keep"),
    (TIMES, "read"),
    (1, "keep"),
    (TIMES, "read"),
    (1, "update"),
    (TIMES, "read"),
    (QUEUED, "put"),
    (QUEUED, "get"),
    (TIMES, "rows"),
    (TIMES, "alone"),
    (TIMES, "chain"),
)
KEPT = 10
"""Variables of the crowd."""
LIMIT = 2 << 20
"""Registered memory of the sender: there is room for copies of all of them, but not in one half."""
CROWDED = ((1, "keep_crowd"), (TIMES, "read_crowd"), (TIMES, "chain"))
Gained = dict[str, int]


class Client:
    """The program, and what the sender counted while it took steps."""

    def __init__(self, made: Cluster) -> None:
        self.made = made
        self.process = made.start_program("forwarding.py")
        self._answer()
        self.before = self._stats()

    def steps(self, times: int, case: str) -> tuple[Any, Gained]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{times} {case}\n")
        self.process.stdin.flush()
        result = self._answer()
        before, self.before = self.before, self._stats()
        return result, {name: value - before[name] for name, value in self.before.items()}

    def _stats(self) -> Gained:
        stats = self.made.tasks[SENDER].stats()
        return {name: value for name, value in stats.items() if type(value) is int}

    def _answer(self) -> Any:
        assert self.process.stdout is not None and self.process.stderr is not None
        for line in self.process.stdout:
            if line.strip():
                return json.loads(line)
        raise AssertionError(f"the client ended:\n{self.process.stderr.read()[-3000:]}")


@contextmanager
def client_of(made: Cluster) -> Iterator[Client]:
    client = Client(made)
    try:
        yield client
    finally:
        client.process.kill()
        client.process.communicate()


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[tuple[int, str]]], Any]:
    """Take steps under stock TensorFlow and return their results."""

    def run(steps: Sequence[tuple[int, str]]) -> Any:
        with (
            cluster(tmp_path_factory.mktemp("stock"), JOBS, STOCK) as made,
            client_of(made) as client,
        ):
            return [client.steps(*step)[0] for step in steps]

    return run


@pytest.fixture(scope="module")
def expected(stock: Callable[[Sequence[tuple[int, str]]], Any]) -> Any:
    return stock(STEPS)


def all_balanced(made: Cluster) -> bool:
    return all(balanced(stats) for stats in made.stats().values())


NOTHING = {"views": 0, "copies": 0, "copy_bytes": 0}


def held(made: Cluster) -> dict[str, int]:
    stats = made.tasks[SENDER].stats()
    return {name: stats[f"held_{name}"] for name in NOTHING}


@pytest.mark.timeout(400)  # two clusters of five processes, on a machine that may be busy
@pytest.mark.parametrize(
    "policy", ["unified", "traced", pytest.param("off", marks=pytest.mark.slow)]
)
def test_on_one_host_a_received_tensor_is_copied_once_for_all_edges_and_steps(
    tmp_path: Path, expected: Any, policy: str
) -> None:
    environment = {"FARWRITE_TF_ALLOCATION": policy}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made, client_of(made) as client:
        results: list[Any] = []

        def steps(times: int, case: str) -> Gained:
            assert STEPS[len(results)] == (times, case)
            result, gained = client.steps(times, case)
            results.append(result)
            return gained

        def check_shared(gained: Gained, copies: int, sent: int) -> None:
            assert gained["staged_received"] == gained["copies"] == copies
            assert gained["bytes_copied"] == copies * TENSOR_BYTES
            assert gained["staged_lent_again"] == sent - copies
            assert gained["pushes_alias"] == sent
            assert gained["staged_foreign_memory"] == gained["zero_copy_tensors"] == 0

        # One tensor a step, for two tasks. What no step needs any more is not held.
        check_shared(steps(TIMES, "chain"), TIMES, 2 * TIMES)
        wait_until(lambda: held(made) == NOTHING)
        # One tensor in a variable, for two tasks in all steps, until the variable gets another.
        for _ in range(2):
            assert steps(1, "keep")["copies"] == 0
            check_shared(steps(TIMES, "read"), 1, 2 * TIMES)
        # The copy and the lease of the first one are gone.
        wait_until(lambda: held(made) == {"views": 1, "copies": 1, "copy_bytes": TENSOR_BYTES})
        # The variable that was updated is another tensor, which no task has sent here.
        assert steps(1, "update")["copies"] == 0
        updated = steps(TIMES, "read")
        assert updated["staged_received"] == 0
        if policy == "unified":
            assert updated["copies"] == 0 and updated["zero_copy_tensors"] == 2 * TIMES
        # Queued tensors keep their senders' leases, and are copied when they are sent.
        assert steps(QUEUED, "put")["copies"] == 0
        wait_until(lambda: held(made)["views"] == QUEUED)
        check_shared(steps(QUEUED, "get"), QUEUED, 2 * QUEUED)
        # Slices: a copy of each. What is computed of them is the task's own.
        gained = steps(TIMES, "rows")
        assert gained["staged_received"] == 4 * TIMES
        assert gained["pushes_alias"] == 2 * 8 * TIMES
        assert steps(TIMES, "alone")["staged_received"] == 0
        check_shared(steps(TIMES, "chain"), TIMES, 2 * TIMES)
        assert results == expected
        assert made.total("grpc_recv_tensor_calls") == made.total("pushes_pull") == 0
        wait_until(lambda: all_balanced(made))
        if policy != "traced":  # which holds copies of its own tensors
            wait_until(lambda: held(made) == NOTHING)
        edges = made.tasks[SENDER].ask("edges")
        dequeued = [edge for edge in edges if "Dequeue" in edge["tensor"] and edge["ways"]]
        assert len(dequeued) == 2
        assert sum(edge["ways"].get("staged_received", 0) for edge in dequeued) == QUEUED
        assert sum(edge["ways"].get("lent_again", 0) for edge in dequeued) == QUEUED
        for edge in dequeued:
            assert edge["reason"].startswith("staged once: received from another task")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("landing", ["on", pytest.param("off", marks=pytest.mark.slow)])
def test_between_hosts_what_landed_is_sent_on_from_where_it_lies(
    tmp_path: Path, expected: Any, landing: str
) -> None:
    """With landing off each tensor is read, into registered memory, and lent from there."""
    environment = {"FARWRITE_FABRICS": "tcp", "FARWRITE_TF_LANDING": landing}
    with cluster(tmp_path, JOBS, FARWRITE, environment) as made, client_of(made) as client:
        results, all_gained = [], []
        for step in STEPS:
            result, gained = client.steps(*step)
            results.append(result)
            all_gained.append(gained)
            # Only what landed and found no slot of its next receiver is copied, once.
            assert gained["copies"] == gained["staged_received"]
            assert gained["copies"] <= gained["offers_without_slot"]
            assert gained["staged_foreign_memory"] == 0
        assert results == expected
        assert made.total("grpc_recv_tensor_calls") == made.total("pushes_pull") == 0
        sender = made.tasks[SENDER].stats()
        if landing == "off":
            assert sender["copies"] == sender["landed"] == sender["pushes_landed"] == 0
        else:
            # The second time every edge of the chain has its slots, though the queue took them.
            last = all_gained[-1]
            assert last["landed"] >= TIMES - 1 and last["pushes_landed"] >= 2 * TIMES - 2
            assert last["copies"] <= 2 * TIMES - last["pushes_landed"]
        wait_until(lambda: all_balanced(made))
        wait_until(lambda: held(made) == NOTHING)


@pytest.mark.timeout(400)
def test_copies_that_are_held_leave_room_for_others(
    tmp_path: Path, stock: Callable[[Sequence[tuple[int, str]]], Any]
) -> None:
    limited = {SENDER: {"FARWRITE_SEND_LIMIT": str(LIMIT)}}
    with (
        cluster(tmp_path, JOBS, FARWRITE, environments=limited) as made,
        client_of(made) as client,
    ):
        answers = [client.steps(*step) for step in CROWDED]
        assert [result for result, _ in answers] == stock(CROWDED)
        read, chain = answers[1][1], answers[2][1]
        assert read["staged_lent_again"] > 0
        assert read["copies"] == read["staged_received"] > KEPT
        # Each step of the chain finds room for its tensor: for one copy that both edges share, or,
        # while the variables' copies fill their half, for a copy an edge.
        assert chain["staged_received"] == chain["copies"]
        assert TIMES <= chain["copies"] <= 2 * TIMES
        assert chain["pushes_pull"] == 0
        # What found no room was fetched by its receiver, and counted.
        sender = made.tasks[SENDER].stats()
        assert sender["pushes_pull"] == sender["pulls_no_memory"]
        assert held(made)["copy_bytes"] <= LIMIT // 2
        # The variables keep their leases, and nothing else does.
        wait_until(lambda: made.total("held_views") == KEPT)
        wait_until(
            lambda: made.total("leases_out") - made.total("leases_returned") == KEPT,
        )
