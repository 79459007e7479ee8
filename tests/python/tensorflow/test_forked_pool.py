"""Forked children of a process that serves read its arrays, as with stock TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, cluster

ARRAY_BYTES = 1_200_000


def run(folder: Path, protocol: str, peer: bool, environment: dict[str, str]) -> Any:
    with cluster(folder, {"worker": 1}, protocol, environment) as made:
        return made.run("forked_pool.py", *(["peer"] if peer else []), seconds=400)


@pytest.mark.timeout(450)
@pytest.mark.slow
@pytest.mark.parametrize("protocol", [STOCK, FARWRITE])
def test_a_forked_pool_reads_what_a_server_had(tmp_path: Path, protocol: str) -> None:
    answered = run(tmp_path, protocol, peer=False, environment={})
    assert answered["seen"] == answered["expected"]
    assert answered["late"] == answered["expected"], "the parent used the memory again"
    assert answered["after"] == answered["expected"], "a child wrote into its parent's memory"
    assert answered["respawned"] == []
    for name, total in answered["written"].items():
        assert total in (0.0, ARRAY_BYTES / 4), f"a child cannot write into its own {name}"
    if protocol == FARWRITE:
        assert answered["held"][-1] >= 2 * ARRAY_BYTES, "the arrays were not in registered memory"
        # What a Pool holds back is what lived when it was forked, however long it lives.
        assert answered["held"][-1] == answered["held"][0]


@pytest.mark.timeout(450)
@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_forked_pool_reads_what_a_peer_sent(tmp_path: Path, fabric: str) -> None:
    answered = run(tmp_path, FARWRITE, peer=True, environment={"FARWRITE_FABRICS": fabric})
    assert answered["seen"] == answered["expected"]
    assert answered["late"] == answered["expected"], "a peer used the memory again"
    assert answered["after"] == answered["expected"], "a child wrote into a peer's memory"
    assert answered["stats"]["received"] > 0
