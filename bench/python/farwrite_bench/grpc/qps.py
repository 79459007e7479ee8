"""gRPC's own benchmark: its driver has two of its workers run scenarios, over each transport."""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.errors import DeadlineExceeded, Internal, PeerDead
from farwrite_bench.cluster.process import free_ports
from farwrite_bench.grpc.counters import read_counters
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import NON_SERIALIZED, QPS, SERIALIZED, GrpcPlan, QpsPlan
from farwrite_bench.grpc.rows import empty_row, is_as_fast, set_target
from farwrite_bench.grpc.transport import STATS, TCP, Transport
from farwrite_bench.grpc.turn import Begin, start_program
from farwrite_bench.program import ANSWER_SECONDS, Program
from farwrite_bench.report.parts import Row

RPC_TYPES = ("UNARY", "STREAMING")
CHANNELS = {1: 1, 2: 8}
"""Calls under way over each channel, by the number of channels."""
LISTENING = "0A"
TARGET = ">= tcp's"


@dataclass(frozen=True)
class Scenario:
    """What the driver has the workers do."""

    rpc_type: str
    channels: int
    mode: str
    size: int

    def to_json(self, seconds: int) -> dict[str, Any]:
        """Return it as gRPC's message Scenario."""
        kind = "simple_params" if self.mode == SERIALIZED else "bytebuf_params"
        payload = {kind: {"req_size": self.size, "resp_size": self.size}}
        server: dict[str, Any] = {"server_type": "ASYNC_SERVER", "async_server_threads": 1}
        if self.mode == NON_SERIALIZED:
            server.update(server_type="ASYNC_GENERIC_SERVER", payload_config=payload)
        return {
            "name": f"{self.rpc_type} {self.channels} {self.mode}",
            "num_clients": 1,
            "num_servers": 1,
            "warmup_seconds": 0,
            "benchmark_seconds": seconds,
            "server_config": server,
            "client_config": {
                "client_type": "ASYNC_CLIENT",
                "async_client_threads": 1,
                "rpc_type": self.rpc_type,
                "client_channels": self.channels,
                "outstanding_rpcs_per_channel": CHANNELS[self.channels],
                "load_params": {"closed_loop": {}},
                "payload_config": payload,
                "histogram_params": {"resolution": 0.01, "max_possible": 60e9},
            },
        }


class QpsBenchmark:
    """Runs a plan's scenarios over each transport in turn."""

    def __init__(self, plan: GrpcPlan, qps: QpsPlan, programs: Path, logs: Path) -> None:
        self._qps, self._programs, self._logs = qps, programs, logs
        self._transports = plan.transports_of(QPS, NON_SERIALIZED)
        self._scenarios = [
            Scenario(rpc_type, channels, mode, qps.size)
            for mode, rpc_type, channels in itertools.product(qps.modes, RPC_TYPES, CHANNELS)
        ]

    def rows(self, begin: Begin) -> list[Row]:
        """Measure, and return a row for each scenario and transport."""
        results: dict[tuple[Scenario, str], list[dict[str, Any]]] = {}
        with contextlib.ExitStack() as stack:
            pairs = {
                transport.key: stack.enter_context(self._pair(transport))
                for transport in self._transports
            }
            for scenario, number in itertools.product(self._scenarios, range(self._qps.rounds)):
                order = self._transports if number % 2 == 0 else self._transports[::-1]
                for transport in order:
                    name = scenario.to_json(0)["name"]
                    begin(f"{QPS} {name} {transport.key}", self._qps.seconds_of_turn)
                    result = self._drive(transport, pairs[transport.key], scenario)
                    results.setdefault((scenario, transport.key), []).append(result)
            for transport in self._transports:
                self._quit(transport, pairs[transport.key])
        return [
            make_row(scenario, transport, results)
            for scenario in self._scenarios
            for transport in self._transports
        ]

    @contextlib.contextmanager
    def _pair(self, transport: Transport) -> Iterator[list[_Worker]]:
        serves, calls, listening = free_ports(3)
        with contextlib.ExitStack() as stack:
            workers = []
            for role, port, own in (
                ("server", serves, [f"--server_port={listening}"]),
                ("client", calls, []),
            ):
                stats = self._logs / f"qps-{transport.key}-{role}.stats"
                program = start_program(
                    f"{role} of {QPS}, over {transport.key}",
                    transport.command(
                        str(self._programs / "qps_worker"), f"--driver_port={port}", *own
                    ),
                    {**transport.variables, STATS: str(stats)},
                    self._logs / f"qps-{transport.key}-{role}.log",
                )
                workers.append(_Worker(stack.enter_context(program), port, stats))
            for worker in workers:
                _await_listening(worker)
            yield workers

    def _drive(
        self, transport: Transport, workers: list[_Worker], scenario: Scenario
    ) -> dict[str, Any]:
        file = self._logs / f"qps-{transport.key}.json"
        file.unlink(missing_ok=True)
        scenarios = {"scenarios": [scenario.to_json(self._qps.seconds)]}
        self._run_driver(
            transport,
            workers,
            f"--scenarios_json={json.dumps(scenarios)}",
            f"--scenario_result_file={file}",
        )
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        if not all((*found["clientSuccess"], *found["serverSuccess"])):
            raise Internal(
                f"bench grpc: gRPC's driver reports a failed worker over {transport.key}; report"
                " this"
            )
        return found

    def _quit(self, transport: Transport, workers: list[_Worker]) -> None:
        """End both workers; Farwrite must have carried all their bytes."""
        self._run_driver(transport, workers, "--quit")
        for worker in workers:
            worker.program.wait()
            if transport.is_farwrite:
                read_counters(worker.stats, None, worker.program.name)

    def _run_driver(self, transport: Transport, workers: list[_Worker], *words: str) -> None:
        addresses = ",".join(f"127.0.0.1:{worker.port}" for worker in workers)
        with start_program(
            f"driver of {QPS}, over {transport.key}",
            # It calls the workers, which require Farwrite.
            transport.command(str(self._programs / "qps_json_driver"), *words),
            {**transport.variables, "QPS_WORKERS": addresses},
            self._logs / f"qps-{transport.key}-driver.log",
        ) as driver:
            try:
                driver.wait(self._qps.seconds + ANSWER_SECONDS)
            except PeerDead as error:
                of_workers = (
                    f"\n{each.program.name}: {each.program.last_words()}" for each in workers
                )
                raise PeerDead(f"{error}{''.join(of_workers)}") from None


@dataclass(frozen=True)
class _Worker:
    program: Program
    port: int
    """Where the driver calls it."""
    stats: Path


def _await_listening(worker: _Worker) -> None:
    give_up = time.monotonic() + ANSWER_SECONDS
    while not _listens(worker.port):
        worker.program.check()
        if time.monotonic() > give_up:
            raise DeadlineExceeded(
                f"bench grpc: {worker.program.name} does not listen at port {worker.port} after"
                f" {ANSWER_SECONDS:.0f} s; run the command on a machine with less load"
            )
        time.sleep(0.02)


def _listens(port: int) -> bool:
    """Tell whether a socket listens at the port, without a connection to it."""
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                return True
    return False


def make_row(
    scenario: Scenario,
    transport: Transport,
    results: dict[tuple[Scenario, str], list[dict[str, Any]]],
) -> Row:
    """Make a row from the results of all rounds, of all transports."""
    row = empty_row(QPS, transport)
    mine = results[scenario, transport.key]

    def middle(name: str) -> float:
        values: list[float] = [result["summary"][name] for result in mine]
        return statistics.median(values)

    rate = middle("qps")
    row.update(
        scheme=PLAIN,
        mode=scenario.mode,
        size=scenario.size,
        rpc_type=scenario.rpc_type.lower(),
        channels=scenario.channels,
        outstanding=CHANNELS[scenario.channels],
        p50_us=middle("latency50") / 1e3,
        p99_us=middle("latency99") / 1e3,
        rpc_s=rate,
        gb_s=rate * 2 * scenario.size / 1e9,
        cpu_s_per_gb=statistics.median(_cpu_s_per_gb(result, scenario) for result in mine),
        server_cpu_s_per_gb=statistics.median(
            _cpu_s_per_gb(result, scenario, "serverStats") for result in mine
        ),
        rounds=[{"rpc_s": result["summary"]["qps"]} for result in mine],
    )
    if (scenario, TCP) in results:
        ratios = [
            one["summary"]["qps"] / base["summary"]["qps"]
            for one, base in zip(mine, results[scenario, TCP], strict=True)
        ]
        ratio = statistics.median(ratios)
        row.update(ratio_to_tcp=ratio, ratio_spread=[min(ratios), max(ratios)])
        set_target(row, TARGET, is_as_fast(ratio, ratios))
    return row


def _cpu_s_per_gb(result: dict[str, Any], scenario: Scenario, *roles: str) -> float:
    used: float = sum(
        each.get("timeUser", 0.0) + each.get("timeSystem", 0.0)
        for role in roles or ("clientStats", "serverStats")
        for each in result[role]
    )
    elapsed: float = result["clientStats"][0]["timeElapsed"]
    calls: float = result["summary"]["qps"] * elapsed
    moved: float = calls * 2 * scenario.size / 1e9
    return used / moved
