"""Tensors of 1.9 GB: the largest that stock carries, there and back. Needs 12 GB of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import FARWRITE, STOCK, cluster
from faults import balanced

from processes import wait_until

JOBS = {"ps": 1, "worker": 1}
BYTES = 1_900_000_000


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_the_largest_tensors_arrive_whole(tmp_path: Path, dtype: str) -> None:
    fingerprints = {}
    for name in ("stock", "shm", "tcp"):
        folder = tmp_path / name
        folder.mkdir()
        protocol = STOCK if name == "stock" else FARWRITE
        with cluster(folder, JOBS, protocol, {"FARWRITE_FABRICS": name}) as made:
            result = made.run("huge.py", dtype, seconds=200)
            assert result["same"], "what came back is not what had gone"
            fingerprints[name] = result["fingerprint"]
            if protocol == STOCK:
                continue
            assert made.total("grpc_recv_tensor_calls") == made.total("pushes_pull") == 0
            assert made.total("bytes_pushed") >= 2 * BYTES
            if name == "shm":
                # What is only looked at is no memory of the worker's: copied to be passed on.
                assert made.total("staged_foreign_memory") == 1
            for task in made.tasks.values():
                wait_until(lambda task=task: balanced(task.stats()))
                assert task.stats()["arena"]["used"] < 1 << 20
    assert fingerprints["shm"] == fingerprints["tcp"] == fingerprints["stock"]
