"""Whatever the system refuses, and wherever a peer dies, each call ends as the matrix says."""

from __future__ import annotations

import pytest

from matrix import command_line

FINE = "survivor fine\n"
REFUSED = ("descriptors", "memory", "threads", "allocations")
POINTS = [
    "clock", "files", "waits",
    *REFUSED,
    *(f"{point}+" for point in REFUSED),
    *(f"far-{point}" for point in ("descriptors", "memory", "threads")),
]  # fmt: skip


def run(program: str, fabric: str, points: str, share: int = 0) -> str:
    shared = {"TEST_SHARE": str(share)} if share else {}
    return command_line.run(program, fabric, points, timeout=380, FARWRITE_LOG="off", **shared)


@pytest.mark.timeout(400)  # of an idle machine: 20 s
def test_what_is_refused_is_said_and_the_clock_does_not_matter() -> None:
    points = "clock,descriptors,memory,threads,allocations,files,far-memory,far-descriptors"
    assert run("refused_program.py", "shm", points, share=3) == FINE


@pytest.mark.slow
@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("point", POINTS)
def test_whatever_is_refused_is_said(point: str, fabric: str) -> None:
    assert run("refused_program.py", fabric, point) == FINE


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
def test_nothing_acknowledged_is_lost_at_some_calls_of_the_peer_to_libc(fabric: str) -> None:
    assert run("killed_program.py", fabric, "libc", share=10) == FINE
