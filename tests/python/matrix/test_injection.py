"""Whatever the system refuses, and wherever a peer dies, each call ends as the matrix says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FINE = "survivor fine\n"
REFUSED = ("descriptors", "memory", "threads", "allocations")
KINDS = [
    "clock", "files", "waits",
    *REFUSED,
    *(f"{kind}+" for kind in REFUSED),
    *(f"far-{kind}" for kind in ("descriptors", "memory", "threads")),
]  # fmt: skip


def run(*words: str, share: int = 0) -> str:
    """Run a program of this folder. Return what it printed, or where it ended instead."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "FARWRITE_LOG": "off"}
    if share:
        environment["INJECTION_SHARE"] = str(share)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", HERE / words[0], *words[1:]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    if ended.returncode == 0:
        return ended.stdout
    last = ended.stderr[-2000:]
    return f"{ended.stdout}{words[0]} ended with {ended.returncode} after the last of:\n{last}"


@pytest.mark.timeout(400)  # of an idle machine: 20 s
def test_what_is_refused_is_said_and_the_clock_does_not_matter() -> None:
    kinds = "clock,descriptors,memory,threads,allocations,files,far-memory,far-descriptors"
    assert run("refused_program.py", "shm", kinds, share=3) == FINE


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_refused_is_said(kind: str, fabric: str) -> None:
    assert run("refused_program.py", fabric, kind) == FINE


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_nothing_acknowledged_is_lost_when_the_peer_is_killed_in_between(fabric: str) -> None:
    assert run("killed_program.py", fabric, "sends,files", share=2) == FINE


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    ["shm sends", "shm files", "tcp sends", "tcp files", "tcp halves"],
)
def test_nothing_acknowledged_is_lost_wherever_the_peer_is_killed(where: str) -> None:
    assert run("killed_program.py", *where.split()) == FINE


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_nothing_acknowledged_is_lost_at_some_steps_of_the_peer(fabric: str) -> None:
    assert run("killed_program.py", fabric, "steps", share=10) == FINE
