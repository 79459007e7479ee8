"""farwrite bench gpu, on the test double of the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_double import library
from farwrite_bench.gpu.benchmark import target
from farwrite_bench.gpu.run import Turns, Way, make_rows

WAYS = {
    "copy",
    "write",
    "alias",
    "copy to host",
    "write to host",
    "copy from host",
    "read from host",
}


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "farwrite", "bench", "gpu", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_a_quick_run_measures_every_way(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    ran = bench(
        "--quick", "--sizes", "64K,1M", "--rounds", "1", "--json", str(file),
        FARWRITE_CUDA_LIBRARY=str(library()),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(file.read_text())
    assert {row["way"] for row in facts["rows"]} >= WAYS
    assert {row["size"] for row in facts["rows"]} == {64 << 10, 1 << 20}
    assert all(row["gb_s"] > 0 for row in facts["rows"])
    assert all(row["pins"] == row["mappings"] == 0 for row in facts["rows"])
    assert facts["hand_over"][0]["way"] == "alias"
    assert "CUDA double" in ran.stdout


def test_without_a_driver_it_says_what_to_install() -> None:
    ran = bench(FARWRITE_CUDA_LIBRARY="/nowhere/libcuda.so.1")
    assert ran.returncode == 1
    assert "install NVIDIA's driver" in ran.stderr


def test_a_ratio_below_the_target_is_marked() -> None:
    ways = [Way(key, "gpu to gpu", lambda size, transfers: 0.0) for key in ("copy", "write")]
    turns = {"copy": Turns([100.0, 100.0]), "write": Turns([80.0, 85.0])}
    limit, write = make_rows(64 << 20, ways, turns)
    assert limit["of_limit"] is None and limit["target"] is None
    assert write["of_limit"]["median"] == pytest.approx(0.825, abs=0.001)
    assert write["target_met"] is False
    assert ">=0.9 MISSED" in (target(write) or "")
