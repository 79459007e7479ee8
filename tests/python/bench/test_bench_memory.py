"""A small run of ``farwrite bench memory``. No test asserts a time."""

from __future__ import annotations

from pathlib import Path

from bench_command import bench, result


def test_allocation_first_use_and_copies_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    done = bench("memory", "--quick", "--json", str(path))
    assert done.returncode == 0, done.stderr
    facts = result(path, "memory")
    assert facts["quick"] is True
    for entry in facts["allocations"] + facts["allocations_tuned_malloc"]:
        assert min(entry["farwrite_ns"], entry["malloc_ns"], entry["ratio"]) > 0
    assert facts["first_use"]["ratio"] > 0
    for row in facts["copies"]:
        assert min(row["gb_s"].values()) > 0
