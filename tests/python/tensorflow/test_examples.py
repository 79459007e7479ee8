"""The examples that need TensorFlow, over Farwrite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from farwrite_bench.cluster.process import free_addresses

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.timeout(900)  # the plug-in may have to be compiled first
def test_the_assign_add_example_runs_unchanged_on_farwrite(tmp_path: Path) -> None:
    ps, worker = free_addresses(2)
    figures = tmp_path / "run.json"
    program = (sys.executable, str(EXAMPLES / "assign_add.py"), "--megabytes", "1", "--steps", "4")
    ended = subprocess.run(
        (
            *(sys.executable, "-m", "farwrite", "run", "--json", str(figures), "--"),
            *(*program, "--ps", ps, "--worker", worker),
        ),
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "after 5 steps every element is between 5 and 5\n"
    assert ended.stderr.count("1 MB added 4 times: ") == 1
    (ours,) = json.loads(figures.read_text())["runs"]
    assert len(ours["processes"]) == 2
    assert ours["counters"]["pushes_alias"] >= 5
    assert ours["counters"]["grpc_recv_tensor_calls"] == 0
    assert ours["socket_bytes_sent"] < 1_000_000  # less than one of the five tensors
