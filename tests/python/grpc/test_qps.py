"""gRPC's own benchmark: a driver that measures one server worker and one client worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grpc_programs import PROGRAMS, GrpcProgram, require_programs
from grpc_transports import TRANSPORTS, Transport

from farwrite_bench.cluster.process import free_ports

require_programs("qps_json_driver", "qps_worker")


def scenario(rpc_type: str) -> dict[str, Any]:
    """Return one second of calls of 1 KB each way, one at a time over one channel."""
    return {
        "name": rpc_type.lower(),
        "num_clients": 1,
        "num_servers": 1,
        "warmup_seconds": 0,
        "benchmark_seconds": 1,
        "server_config": {"server_type": "SYNC_SERVER"},
        "client_config": {
            "client_type": "SYNC_CLIENT",
            "rpc_type": rpc_type,
            "client_channels": 1,
            "outstanding_rpcs_per_channel": 1,
            "load_params": {"closed_loop": {}},
            "payload_config": {"simple_params": {"req_size": 1024, "resp_size": 1024}},
            "histogram_params": {"resolution": 0.01, "max_possible": 60e9},
        },
    }


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda transport: transport.name)
@pytest.mark.parametrize("rpc_type", ["UNARY", "STREAMING"])
def test_the_driver_reports_a_rate(transport: Transport, tmp_path: Path, rpc_type: str) -> None:
    serves, calls, listening = free_ports(3)
    worker = PROGRAMS / "qps_worker"
    serving = [worker, f"--driver_port={serves}", f"--server_port={listening}"]
    calling = [worker, f"--driver_port={calls}"]
    # The driver calls both workers, so that it is upgraded only where both can be.
    driving = [
        *(transport.client if transport.upgrades else ()),
        PROGRAMS / "qps_json_driver",
        f"--scenarios_json={json.dumps({'scenarios': [scenario(rpc_type)]})}",
        f"--json_file_out={tmp_path / 'rate.json'}",
    ]
    workers = {"QPS_WORKERS": f"127.0.0.1:{serves},127.0.0.1:{calls}"}
    with (
        GrpcProgram([*transport.server, *serving], tmp_path, "server_worker") as server,
        GrpcProgram([*transport.client, *calling], tmp_path, "client_worker") as client,
    ):
        server.wait_until_it_listens(serves)
        client.wait_until_it_listens(calls)
        with GrpcProgram(driving, tmp_path, "driver", workers) as driver:
            statistics = driver.succeed()
        transport.check_client(client.interrupt())
        transport.check_server(server.interrupt())
    if transport.upgrades:
        transport.check_client(statistics)
    assert json.loads((tmp_path / "rate.json").read_text())["qps"] > 0
