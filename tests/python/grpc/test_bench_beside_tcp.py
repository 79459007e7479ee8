"""Small runs of the benchmarks that compare Farwrite with TCP; no test asserts a time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from grpc_programs import REPOSITORY, require_programs

require_programs("qps_json_driver", "qps_worker")

IDLE = 40
MIB = 1 << 20


def measure(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    """Run `bench grpc --quick`; return its rows.

    On a busy machine a connection may stay with TCP, and the command says to run it again.
    """
    figures = tmp_path / "grpc.json"
    for _ in range(2):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "farwrite",
                "bench",
                "grpc",
                *words,
                "--quick",
                "--json",
                figures,
            ],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            cwd=REPOSITORY,
        )
        if "run the command again" not in done.stderr:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    rows: list[dict[str, Any]] = json.loads(figures.read_text())["rows"]
    return rows


def test_a_receiver_holds_large_messages_where_they_are(tmp_path: Path) -> None:
    rows = measure(tmp_path, "receiver", "--size", "16M", "--seconds", "0.5")
    ours = [row for row in rows if row["transport"] == "farwrite-shm"]
    assert [row["reads"] for row in ours] == [False, True]
    for row in ours:
        assert row["server_cpu_of_tcp"] > 0
        assert row["target"] is not None or row["reads"]
        # Only a first slice, which gRPC made before the connection had a device, is staged.
        assert row["copies"] < 0.1


def test_connections_need_little_memory_above_tcps(tmp_path: Path) -> None:
    rows = measure(tmp_path, "connect", "--connections", str(IDLE))
    assert len(rows) == 6
    (idle,) = [
        row for row in rows if (row["connection"], row["transport"]) == ("idle", "farwrite-shm")
    ]
    assert max(idle["bytes_above_tcp"].values()) < MIB
    for row in rows:
        if row["connection"] != "idle":
            assert row["p99_us"] >= row["p50_us"] > 0


def test_grpcs_scenarios_have_rates_over_both_transports(tmp_path: Path) -> None:
    rows = measure(tmp_path, "qps", "--mode", "non-serialized")
    kinds = {(row["rpc_type"], row["channels"], row["transport"]) for row in rows}
    assert len(kinds) == len(rows) == 8
    for row in rows:
        assert min(row["rpc_s"], row["p50_us"], row["gb_s"], row["cpu_s_per_gb"]) > 0
        assert (row["target"] is None) == (row["transport"] == "tcp")
