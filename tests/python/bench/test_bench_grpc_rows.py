"""What ``farwrite bench grpc`` makes of figures, and what it refuses; no process is started."""

from __future__ import annotations

import mmap
import os
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench_command import parsed
from farwrite.errors import InvalidArgument, NotFound
from farwrite_bench.grpc import build
from farwrite_bench.grpc.benchmark import BENCHMARK
from farwrite_bench.grpc.connect import private_bytes
from farwrite_bench.grpc.plan import (
    BENCHMARKS,
    CONNECT,
    QPS,
    RECEIVER,
    GrpcPlan,
    expected_seconds,
    make_plan,
)
from farwrite_bench.grpc.qps import Scenario, figures, is_as_fast, scenario_row
from farwrite_bench.grpc.rows import make_row
from farwrite_bench.grpc.run import run
from farwrite_bench.grpc.transport import MPI, TRANSPORTS
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Row

LONGEST_RUN = 600
"""Seconds of the command without options."""
SCENARIO = Scenario("UNARY", 2, "serialized")


def plan_of(*words: str) -> GrpcPlan:
    """Return the plan that these arguments select."""
    return make_plan(parsed(BENCHMARK, *words))


def turn(qps: float) -> Row:
    """Return the figures of one second at this rate, as gRPC's driver reports it."""
    used = {"timeUser": 0.25, "timeSystem": 0.25, "timeElapsed": 1.0}
    return figures(
        {
            "summary": {"qps": qps, "latency50": 2e5, "latency99": 4e5},
            "clientStats": [used],
            "serverStats": [used],
        }
    )


def hide_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command search where no checkout is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


def test_a_run_of_everything_ends_within_ten_minutes() -> None:
    plan = plan_of()
    assert {case.benchmark for case in plan.cases} == set(BENCHMARKS) - {CONNECT, QPS}
    assert (plan.idle, plan.pace.qps_seconds) == (1000, 3)
    assert expected_seconds(plan) < LONGEST_RUN


@pytest.mark.parametrize("benchmark", [RECEIVER, CONNECT, QPS])
def test_farwrite_is_compared_with_tcp_unless_others_are_named(benchmark: str) -> None:
    def compared(*words: str) -> list[str]:
        plan = plan_of(benchmark, *words)
        return [each.key for each in plan.transports_of(benchmark, "non-serialized")]

    assert compared() == ["tcp", "farwrite-shm"]
    assert compared("--transport", "tcp", "--transport", "farwrite-tcp") == ["tcp", "farwrite-tcp"]
    assert compared("--transport", "mpi") == []


def test_private_bytes_counts_anonymous_and_shared_memory() -> None:
    size = 32 << 20
    before = private_bytes(os.getpid())
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as private:
        private.write(b"\1" * size)
        between = private_bytes(os.getpid())
        assert between - before == pytest.approx(size, rel=0.1)
        with mmap.mmap(-1, size, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS) as shared:
            shared.write(b"\1" * size)
            assert private_bytes(os.getpid()) - between == pytest.approx(size, rel=0.1)


def test_more_connections_than_descriptors_are_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    plan = plan_of("connect", "--connections", "1000")
    with pytest.raises(InvalidArgument, match=r"ulimit -Hn"):
        run(plan, lambda *_: None, tmp_path)


@pytest.mark.parametrize(
    ("ratio", "rounds", "expected"),
    [
        (1.2, [1.1, 1.3], True),
        (1.0, [0.9, 1.1], True),
        (0.96, [0.9, 1.01], True),
        (0.96, [0.95, 0.97], False),
        (0.94, [0.8, 1.2], False),
    ],
)
def test_a_rate_below_tcps_counts_only_within_noise(
    ratio: float, rounds: list[float], expected: bool
) -> None:
    assert is_as_fast(ratio, rounds) == expected


def test_a_qps_row_compares_the_turns_of_one_round() -> None:
    turns = {
        "tcp": [turn(10_000), turn(20_000), turn(10_000)],
        "farwrite-shm": [turn(15_000), turn(22_000), turn(9_000)],
    }
    row = scenario_row(SCENARIO, TRANSPORTS["farwrite-shm"], turns)
    assert (row["rpc_s"], row["p50_us"], row["p99_us"]) == (15_000, 200, 400)
    assert row["ratio_to_tcp"] == pytest.approx(1.1)
    assert row["ratio_spread"] == [pytest.approx(0.9), pytest.approx(1.5)]
    assert row["cpu_s_per_gb"] == pytest.approx(1 / (15_000 * 2 * 1024 / 1e9))
    assert row["server_cpu_s_per_gb"] == pytest.approx(row["cpu_s_per_gb"] / 2)
    assert row["target_met"] is True
    base = scenario_row(SCENARIO, TRANSPORTS["tcp"], turns)
    assert (base["ratio_to_tcp"], base["target"]) == (1, None)


def test_receivers_of_two_sizes_are_two_cases() -> None:
    rows = []
    for made in plan_of("receiver", "--size", "1K,16M").cases:
        found = {"size": made.payload.bytes, "reads": made.reads, "ratio_to_tcp": 2.0}
        rows.append(make_row(RECEIVER, TRANSPORTS["farwrite-shm"], **found))
    cases = [gain.case for gain in BENCHMARK.gains({"rows": rows})]
    assert len({*cases}) == len(rows) == 4, cases


def test_without_grpcs_programs_qps_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_the_checkout(tmp_path, monkeypatch)
    with pytest.raises(NotFound, match=r"type: make grpc-programs"):
        BENCHMARK.plan(parsed(BENCHMARK, "qps"), Record("grpc", quick=True))


def test_what_is_missing_has_rows_that_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_openmpi() -> None:
        raise NotFound("no OpenMPI")

    hide_the_checkout(tmp_path, monkeypatch)
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho \'{"pid": 1, "address": "", "grpc": "1.51"}\'\n')
    program.chmod(0o755)
    monkeypatch.setattr(build, "build", lambda: program)
    monkeypatch.setattr(build.openmpi, "find", no_openmpi)
    record = Record("grpc", quick=True)
    everything = BENCHMARK.plan(parsed(BENCHMARK, "--transport", "tcp"), record)
    assert everything.tools.qps is None
    assert record.notes[-1] == everything.tools.missing["qps"]
    latency = BENCHMARK.plan(
        parsed(BENCHMARK, "latency", "--transport", MPI, "--size", "64"), record
    )
    qps = replace(everything, benchmarks=(QPS,), cases=())
    rows = [row for plan in (latency, qps) for row in run(plan, lambda *_: None, tmp_path)["rows"]]
    facts = {"rows": rows}
    assert [(row["benchmark"], row["skipped"]) for row in rows] == [
        ("latency", "no OpenMPI"),
        ("qps", everything.tools.missing["qps"]),
    ]
    shown = [cells for table in BENCHMARK.tables for cells in table.cells(facts)]
    assert shown[0][2:4] == ["mpi", "skipped"]
    assert shown[1][4:6] == ["tcp", "skipped"]
    assert BENCHMARK.gains(facts) == []


def test_the_programs_of_a_checkout_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_the_checkout(tmp_path, monkeypatch)
    for file in (build.FETCH, *(f"{build.QPS_FOLDER}/{name}" for name in build.QPS_PROGRAMS)):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert build.find_qps() == tmp_path / build.QPS_FOLDER
