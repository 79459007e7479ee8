"""A small end-to-end run of ``farwrite bench collective``. No test asserts a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_command import bench, result


@pytest.mark.slow
def test_both_transports_reduce_in_turn(tmp_path: Path) -> None:
    figures = tmp_path / "new" / "collective.json"
    ended = bench(
        *("collective", "--megabytes", "1", "--rounds", "2", "--steps", "2"),
        *("--json", str(figures)),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = result(figures, "collective")
    assert facts["quick"] is False
    stock, ours = facts["rows"]
    assert (stock["transport"], ours["transport"]) == ("grpc", "farwrite")
    assert stock["of_grpc"] == 1
    assert ours["rpcs"] == 0
    # Each worker receives half a megabyte twice, and copies it to its place.
    assert ours["copies"] == 4
    assert ours["socket_bytes"] * 20 < stock["socket_bytes"]
    assert min(stock["cpu_ms"], ours["cpu_ms"]) > 0
    assert stock["steps"] == ours["steps"] == 4
    assert (
        "all-reduce of 1 MiB between 2 workers (bytes 1048576, rounds 2, steps 2)" in ended.stdout
    )
