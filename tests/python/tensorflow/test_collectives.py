"""Collectives of two workers under MultiWorkerMirroredStrategy: where their bytes go."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, QUIET, STOCK, cluster, free_ports, started
from faults import balanced

from farwrite.run.child import HOOK
from farwrite.run.inside import MODE
from processes import wait_until

LARGEST = 1024 * 2048 * 8
"""Bytes of the largest tensor in programs/collectives.py."""


class Workers:
    """Two processes of programs/collectives.py."""

    def __init__(
        self, folder: Path, protocols: Sequence[str], environments: Sequence[Mapping[str, str]]
    ):
        addresses = json.dumps([f"127.0.0.1:{port}" for port in free_ports(len(protocols))])
        self.logs = [folder / f"worker{index}.log" for index in range(len(protocols))]
        self.processes = []
        for index, protocol in enumerate(protocols):
            with self.logs[index].open("wb") as log:
                arguments = [protocol, addresses, str(index)]
                self.processes.append(
                    started("collectives.py", arguments, environments[index], log)
                )

    def send(self, order: str, *which: int) -> None:
        for index in which or range(len(self.processes)):
            pipe = self.processes[index].stdin
            assert pipe is not None
            pipe.write(f"{order}\n")
            pipe.flush()

    def line(self, index: int) -> str:
        pipe = self.processes[index].stdout
        assert pipe is not None
        line = pipe.readline().strip()
        assert line, f"worker {index} ended:\n{self.logs[index].read_text()[-3000:]}"
        return line

    def ask(self, order: str, *which: int) -> list[Any]:
        chosen = which or tuple(range(len(self.processes)))
        self.send(order, *chosen)
        return [json.loads(self.line(index)) for index in chosen]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()


@contextmanager
def workers(
    folder: Path, protocols: Sequence[str], *environments: Mapping[str, str]
) -> Iterator[Workers]:
    made = Workers(folder, protocols, environments or [{}] * len(protocols))
    try:
        assert [made.line(index) for index in range(len(protocols))] == ["joined"] * len(protocols)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], dict[str, Any]]:
    """What both come to, one of them without the plug-in, and the other one's counters."""
    with workers(tmp_path_factory.mktemp("mixed"), [FARWRITE, STOCK]) as made:
        return made.ask("check"), made.ask("stats", 0)[0]


@pytest.fixture(scope="module")
def by_stock(mixed: tuple[list[Any], dict[str, Any]]) -> list[Any]:
    return mixed[0]


def settled(made: Workers, *which: int) -> bool:
    return all(balanced(stats) for stats in made.ask("stats", *which))


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_collectives_go_by_farwrite_and_end_as_they_should(
    tmp_path: Path, by_stock: list[Any], fabric: str
) -> None:
    forced = {"FARWRITE_FABRICS": fabric}
    with workers(tmp_path, [FARWRITE, FARWRITE], forced, forced) as made:
        assert made.ask("check") == by_stock
        for stats in made.ask("stats"):
            assert [link["fabric"] for link in stats["links"]] == [fabric]
            assert stats["collective_bytes"] > 2 * LARGEST
            assert stats["collective_staged"] == 0
            moved = "collective_copies" if fabric == "shm" else "offers_read"
            assert stats[moved] > 0
            assert stats["collective_copies"] + stats["offers_read"] == stats[moved]
            assert (stats["collective_pulls"], stats["grpc_recv_buf_calls"]) == (0, 0)
        wait_until(lambda: settled(made))

        # What a cancelled step has sent goes with it: the next one has the same keys.
        assert [answer["value"] for answer in made.ask("reduce")] == [3.0, 3.0]
        for index in (0, 1):
            (cancelled,) = made.ask("cancel", index)
            assert cancelled["failed"] == "CancelledError"
            wait_until(lambda: settled(made))
            assert [answer["value"] for answer in made.ask("reduce")] == [3.0, 3.0]
        assert [stats["collective_withdrawals"] for stats in made.ask("stats")] == [1, 1]

        if fabric == "shm":
            # The other worker waits for one whose collectives have been aborted.
            made.send("reduce", 1)
            assert made.ask("abort", 0) == [True]
            answer = json.loads(made.line(1))
            assert answer["failed"] == "AbortedError"
            assert "the test said so" in answer["message"]
            wait_until(lambda: settled(made))
        else:
            made.send("loop")
            assert [made.line(0), made.line(1)] == ["looping", "looping"]
            made.processes[1].kill()
            answer = json.loads(made.line(0))
            assert answer["failed"] == "UnavailableError"
            wait_until(lambda: settled(made, 0))


@pytest.mark.parametrize("count", [2, 3])
def test_a_worker_that_fails_before_its_first_exchange_ends_the_others(
    tmp_path: Path, count: int
) -> None:
    """The last one, by the leader's verdict. Then its neighbour in the ring, and so on."""
    with workers(tmp_path, [FARWRITE] * count) as made:
        for answer in made.ask("mismatch"):
            assert answer["failed"] == "InvalidArgumentError"
            assert "Shape mismatch" in answer["message"]
        assert sum(stats["grpc_recv_buf_calls"] for stats in made.ask("stats")) == 0
        wait_until(lambda: settled(made))


def test_a_stock_worker_among_them_gets_everything_by_grpc(
    mixed: tuple[list[Any], dict[str, Any]],
) -> None:
    """So what it comes to is what stock comes to: the others are compared with it."""
    stats = mixed[1]
    assert stats["collective_pushes"] == 0
    assert stats["collective_pulls"] == stats["pulls_stock_peer"] > 0
    assert stats["grpc_recv_buf_calls"] > 0
    assert stats["grpc_recv_buf_bytes"] > 2 * LARGEST


def test_what_is_elsewhere_is_staged_and_without_room_pulled(
    tmp_path: Path, by_stock: list[Any]
) -> None:
    """And an unmodified program under farwrite run takes part."""
    elsewhere = {"FARWRITE_TF_ALLOCATION": "off"}
    no_room = {**elsewhere, "FARWRITE_SEND_LIMIT": "2M"}
    hook = {MODE: "farwrite", "PYTHONPATH": os.pathsep.join([str(HOOK), QUIET["PYTHONPATH"]])}
    with workers(tmp_path, [STOCK, FARWRITE], {**elsewhere, **hook}, no_room) as made:
        assert made.ask("check") == by_stock
        first, second = made.ask("stats")
        assert first["collective_staged"] > 0
        assert (first["pulls_no_memory"], second["collective_pulls"]) == (0, 0)
        assert first["collective_pulls"] == second["pulls_no_memory"] > 0
        # A second strategy makes TensorFlow's server replace what carries collectives.
        assert made.ask("train again") == [worker["training"] for worker in by_stock]
        again = made.ask("stats", 0)[0]
        assert again["collective_staged"] > first["collective_staged"]
        # And once more, under the master of a session. Stock ends by SIGSEGV because of the trace.
        assert made.ask("graph") == [3, 3]
        wait_until(lambda: settled(made))


def test_collectives_of_a_clients_contexts_and_of_sessions_after_them(tmp_path: Path) -> None:
    """A server's first eager context replaces what carries collectives. Stock ends by SIGSEGV."""
    with cluster(tmp_path, {"worker": 2}, FARWRITE) as made:
        assert made.run("context_collectives.py") == {"contexts": [3, 3], "session": [3, 3]}
        for stats in made.stats().values():
            assert stats["collective_pushes"] > 0
            assert (stats["collective_pulls"], stats["grpc_recv_buf_calls"]) == (0, 0)
        wait_until(lambda: all(balanced(stats) for stats in made.stats().values()))
