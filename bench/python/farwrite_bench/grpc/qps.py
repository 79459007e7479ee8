"""gRPC's own benchmark: its driver has two of its workers run scenarios, over each transport."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.errors import DeadlineExceeded, Internal, PeerDead
from farwrite_bench.cluster.process import free_ports
from farwrite_bench.failure import Crew, noting
from farwrite_bench.grpc.payload import PLAIN
from farwrite_bench.grpc.plan import NON_SERIALIZED, QPS, QPS_SIZE, SERIALIZED, GrpcPlan
from farwrite_bench.grpc.process import Process
from farwrite_bench.grpc.rows import Begin, in_turn, make_row, set_target
from farwrite_bench.grpc.transport import TCP, Transport
from farwrite_bench.program import ANSWER_SECONDS
from farwrite_bench.report.parts import Row

RPC_TYPES = ("UNARY", "STREAMING")
CHANNELS = {1: 1, 2: 8}
"""Calls under way over each channel, by the number of channels."""
LISTENING = "0A"
NOISE = 0.95
"""A rate this near to TCP's counts as TCP's, if a round was at or above it."""


@dataclass(frozen=True)
class Scenario:
    """What the driver has the workers do."""

    rpc_type: str
    channels: int
    mode: str

    @property
    def name(self) -> str:
        """The name in progress and in gRPC's result."""
        return f"{self.rpc_type} {self.channels} {self.mode}"

    def to_json(self, seconds: int) -> dict[str, Any]:
        """Return it as gRPC's message Scenario."""
        kind = "simple_params" if self.mode == SERIALIZED else "bytebuf_params"
        payload = {kind: {"req_size": QPS_SIZE, "resp_size": QPS_SIZE}}
        server: dict[str, Any] = {"server_type": "ASYNC_SERVER", "async_server_threads": 1}
        if self.mode == NON_SERIALIZED:
            server.update(server_type="ASYNC_GENERIC_SERVER", payload_config=payload)
        return {
            "name": self.name,
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


def rows(plan: GrpcPlan, begin: Begin, logs: Path) -> list[Row]:
    """Run all scenarios, and return a row for each scenario and transport."""
    transports = plan.transports_of(QPS)
    found: list[tuple[Scenario, Mapping[str, Sequence[Row]], Mapping[str, str]]] = []
    failed: dict[str, str] = {}
    pairs: dict[str, Crew[_Pair]] = {}
    with contextlib.ExitStack() as stack:
        for each in transports:
            pairs[each.key] = stack.enter_context(
                Crew(functools.partial(_workers, each, plan, logs))
            )
            with noting(failed, each.key):
                pairs[each.key].members()

        def end(key: str) -> None:
            pairs[key].end()

        for mode, rpc_type, channels in itertools.product(plan.modes, RPC_TYPES, CHANNELS):
            scenario = Scenario(rpc_type, channels, mode)

            def take(transport: Transport, scenario: Scenario = scenario) -> Row:
                begin(f"{QPS} {scenario.name} {transport.key}")
                pair = pairs[transport.key].members()
                return figures(pair.run(scenario, plan.pace.qps_seconds))

            turns = in_turn(transports, plan.pace.qps_rounds, take, failed, end)
            found.append((scenario, turns, dict(failed)))
        measured = [transport for transport in transports if transport.key not in failed]
        # Where Farwrite did not carry all bytes, or workers that failed have no counters that show
        # it did, no figure is Farwrite's.
        farwrite = {transport.key for transport in transports if transport.is_farwrite}
        wrong = {key: why for key, why in failed.items() if key in farwrite}
        in_turn(measured, 1, lambda transport: pairs[transport.key].members().quit(), wrong)
    return [
        scenario_row(scenario, each, turns, {**errors, **wrong}.get(each.key))
        for scenario, turns, errors in found
        for each in transports
    ]


@dataclass(frozen=True)
class _Pair:
    """Two workers of gRPC's benchmark, and the driver that calls them."""

    transport: Transport
    driver: Path
    logs: Path
    workers: Mapping[int, Process]
    """By the ports where the driver calls them."""

    def run(self, scenario: Scenario, seconds: int) -> dict[str, Any]:
        """Run a scenario, and return gRPC's result."""
        file = self.logs / f"qps-{self.transport.key}.json"
        file.unlink(missing_ok=True)
        scenarios = json.dumps({"scenarios": [scenario.to_json(seconds)]})
        self._drive(seconds, f"--scenarios_json={scenarios}", f"--scenario_result_file={file}")
        try:
            found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Internal(
                "bench grpc: gRPC's driver wrote no whole result over"
                f" {self.transport.key}: {error}; report this"
            ) from None
        if not all((*found["clientSuccess"], *found["serverSuccess"])):
            raise Internal(
                "bench grpc: gRPC's driver reports a failed worker over"
                f" {self.transport.key}; report this"
            )
        return found

    def quit(self) -> None:
        """End both workers; Farwrite must have carried all their bytes."""
        self._drive(0, "--quit")
        for worker in self.workers.values():
            worker.wait()
            if self.transport.is_farwrite:
                worker.counters()

    def _drive(self, seconds: int, *words: str) -> None:
        log = self.logs / f"qps-{self.transport.key}-driver.log"
        addresses = ",".join(f"127.0.0.1:{port}" for port in self.workers)
        # It calls the workers, which require Farwrite.
        with Process(
            *(self.transport, f"driver of {QPS}", [str(self.driver), *words], log),
            QPS_WORKERS=addresses,
        ) as driver:
            try:
                driver.wait(seconds + ANSWER_SECONDS)
            except PeerDead as error:
                theirs = (f"\n{each.name}: {each.last_words()}" for each in self.workers.values())
                raise PeerDead(f"{error}{''.join(theirs)}") from None


@contextlib.contextmanager
def _workers(transport: Transport, plan: GrpcPlan, logs: Path) -> Iterator[_Pair]:
    assert plan.tools.qps is not None
    serves, calls, listening = free_ports(3)
    with contextlib.ExitStack() as stack:
        workers = {}
        for role, port, own in (
            ("server", serves, [f"--server_port={listening}"]),
            ("client", calls, []),
        ):
            command = [str(plan.tools.qps / "qps_worker"), f"--driver_port={port}", *own]
            log = logs / f"qps-{transport.key}-{role}.log"
            workers[port] = Process(transport, f"{role} of {QPS}", command, log)
            stack.enter_context(workers[port])
        for port, worker in workers.items():
            _await_listening(worker, port)
        yield _Pair(transport, plan.tools.qps / "qps_json_driver", logs, workers)


def _await_listening(worker: Process, port: int) -> None:
    give_up = time.monotonic() + ANSWER_SECONDS
    while not _listens(port):
        worker.check()
        if time.monotonic() > give_up:
            raise DeadlineExceeded(
                f"bench grpc: {worker.name} does not listen at port {port} after"
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


def figures(result: Mapping[str, Any]) -> Row:
    """Turn gRPC's result of a scenario into the figures of a turn."""
    rate = result["summary"].get("qps", 0.0)  # gRPC leaves zeros out
    gb_s = rate * 2 * QPS_SIZE / 1e9
    gigabytes = gb_s * result["clientStats"][0].get("timeElapsed", 0.0)
    if gigabytes == 0:
        raise Internal("bench grpc: gRPC's driver counted no calls of a scenario; report this")

    def cpu_seconds(role: str) -> float:
        used = (each.get("timeUser", 0.0) + each.get("timeSystem", 0.0) for each in result[role])
        return float(sum(used))

    server = cpu_seconds("serverStats")
    return {
        "p50_us": result["summary"]["latency50"] / 1e3,
        "p99_us": result["summary"]["latency99"] / 1e3,
        "rpc_s": rate,
        "gb_s": gb_s,
        "cpu_s_per_gb": (cpu_seconds("clientStats") + server) / gigabytes,
        "server_cpu_s_per_gb": server / gigabytes,
    }


def is_as_fast(ratio: float, rounds: Sequence[float]) -> bool:
    """Tell whether a rate is at least TCP's, or below by no more than noise."""
    return ratio >= 1 or (ratio >= NOISE and max(rounds) >= 1)


def scenario_row(
    scenario: Scenario,
    transport: Transport,
    turns: Mapping[str, Sequence[Row]],
    error: str | None = None,
) -> Row:
    """Make a row from the turns of all transports, or with the reason why it has no figures."""
    row = make_row(
        QPS,
        transport,
        scheme=PLAIN,
        mode=scenario.mode,
        size=QPS_SIZE,
        rpc_type=scenario.rpc_type.lower(),
        channels=scenario.channels,
        outstanding=CHANNELS[scenario.channels],
        error=error,
    )
    if error is not None:
        return row
    mine = turns[transport.key]
    row["rounds"] = [{"rpc_s": turn["rpc_s"]} for turn in mine]
    row |= {name: statistics.median(turn[name] for turn in mine) for name in mine[0]}
    if TCP in turns:
        ratios = [one["rpc_s"] / tcp["rpc_s"] for one, tcp in zip(mine, turns[TCP], strict=True)]
        ratio = statistics.median(ratios)
        row.update(ratio_to_tcp=ratio, ratio_spread=[min(ratios), max(ratios)])
        set_target(row, ">= tcp's", is_as_fast(ratio, ratios))
    return row
