"""Tensors of a known size land in memory that waits for them, where none can be mapped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster import FARWRITE, Cluster, cluster, finish
from faults import balanced, go_on, wait_for

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
TCP = {"FARWRITE_FABRICS": "tcp"}
STEPS = 30
BUSY = STEPS  # tensors that a busy machine may offer instead


@contextmanager
def client_of(made: Cluster) -> Iterator[subprocess.Popen[str]]:
    client = made.start_program("landing.py")
    try:
        yield client
    finally:
        client.kill()
        client.communicate()


def growth(made: Cluster, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    return {
        task: {
            name: value - before[task][name] for name, value in stats.items() if type(value) is int
        }
        for task, stats in made.stats().items()
    }


def run(made: Cluster) -> tuple[Any, dict[str, dict[str, int]]]:
    """Run the program; return its answer and what its later half counted."""
    with client_of(made) as client:
        wait_for(client, "steady")
        before = made.stats()
        go_on(client)
        wait_for(client, "done")
        grown = growth(made, before)
        go_on(client)
        return finish(client), grown


def test_edges_that_repeat_need_no_request_and_no_allocation(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, TCP) as made:
        answered, grown = run(made)
        assert answered == {"wrong": []}
        to_worker, to_ps = grown["ps0"], grown["worker0"]
        # Back go three tensors a step, and nothing but them: each lands.
        # (On a busy machine some find their slots not given back yet, and have others made.)
        assert to_ps["pushes_landed"] == grown["ps0"]["landed"] >= 3 * STEPS - BUSY
        missed = 3 * STEPS - to_ps["pushes_landed"]
        assert to_ps["pushes_alias"] == grown["ps0"]["offers_read"] == missed
        assert grown["ps0"]["read_allocations"] == missed >= grown["ps0"]["slots_opened"]
        # To the worker land three static ones, the ref variable and the one that has grown. The one
        # that still grows is offered, and of the loop's as many as find no slot.
        assert to_worker["pushes_landed"] == grown["worker0"]["landed"] >= 5 * STEPS - BUSY
        assert to_worker["pushes_alias"] == grown["worker0"]["offers_read"] >= STEPS
        assert to_worker["offers_without_slot"] >= STEPS  # the loop has more than an edge's slots
        assert to_worker["snapshot_tensors"] == STEPS
        assert made.total("grpc_recv_tensor_calls") == 0 and made.total("pushes_pull") == 0
        assert made.total("pushes_landed") == made.total("landed")
        worker = made.tasks["worker0"]
        # The variable keeps its last value where it landed.
        wait_until(lambda: worker.stats()["landing"]["held"] == 1)
        wait_until(lambda: all(balanced(stats) for stats in made.stats().values()))
        # Slots that were outgrown have gone: at most four are left of each of seven edges.
        opened = worker.stats()["slots_opened"]
        wait_until(lambda: worker.stats()["landing"]["slots"] < opened)
        wait_until(lambda: worker.stats()["landing"]["slots"] <= 4 * 7)
        # With the sender go all but the one that the variable holds.
        made.tasks["ps0"].kill()
        wait_until(lambda: worker.stats()["landing"]["slots"] == 1)
        assert worker.stats()["landing"]["held"] == 1 and balanced(worker.stats())


def test_without_landing_or_room_for_it_tensors_are_offered(tmp_path: Path) -> None:
    # The ps lands nothing, and has no room for two slots of each of the worker's edges.
    narrow = {"FARWRITE_TF_LANDING": "off", "FARWRITE_RECEIVE_LIMIT": "2M"}
    with cluster(tmp_path, JOBS, FARWRITE, TCP, environments={"ps0": narrow}) as made:
        answered, grown = run(made)
        assert answered == {"wrong": []}
        from_ps, from_worker = grown["ps0"], grown["worker0"]
        assert from_ps["pushes_landed"] == 0 and from_ps["offers_without_slot"] == 0
        assert from_worker["offers_read"] == from_ps["pushes_alias"] > 0
        assert made.tasks["ps0"].stats()["slots_refused"] > 0
        assert from_worker["pushes_landed"] == from_ps["landed"]
        assert from_worker["offers_without_slot"] == from_worker["pushes_alias"] > 0
        assert made.total("grpc_recv_tensor_calls") == 0
        wait_until(lambda: all(balanced(stats) for stats in made.stats().values()))
