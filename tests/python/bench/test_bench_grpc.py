"""Small end-to-end runs of ``farwrite bench grpc``. No test asserts a time."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench_command import bench, parsed, result
from farwrite.errors import FailedPrecondition, InvalidArgument, NotFound, PeerDead
from farwrite_bench.box import openmpi
from farwrite_bench.grpc import build
from farwrite_bench.grpc.benchmark import BENCHMARK
from farwrite_bench.grpc.build import Tools
from farwrite_bench.grpc.payload import CATEGORIES, drawn, skewed, uniform
from farwrite_bench.grpc.plan import GrpcPlan, make_plan
from farwrite_bench.grpc.process import read_counters
from farwrite_bench.grpc.rows import FIELDS
from farwrite_bench.grpc.transport import TRANSPORTS, Transport
from farwrite_bench.grpc.turn import take_turn
from farwrite_bench.report.parts import Row

pytestmark = pytest.mark.timeout(400)  # the first test compiles the program

PAYLOAD_BENCHMARKS = ("latency", "bandwidth", "ps-throughput", "mimic")
COUNTING = """
import json, os, sys
with open(os.environ["FARWRITE_GRPC_STATS"], "a") as file:
    print(json.dumps({"pid": os.getpid(), **json.loads(sys.argv[1])}), file=file)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Runs a program as Farwrite's component would, as far as its counters go."""

COUNTERS: dict[str, object] = {
    "upgraded": 1,
    "stayed": {},
    "sent_bytes": 1000,
    "staged_bytes": 0,
    "borrowed_bytes": 0,
    "message_bytes": 0,
    "read_bytes": 0,
}


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        return build.build(fetch=False)
    except NotFound as missing:
        pytest.skip(str(missing))


def measure(tmp_path: Path, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    """Run `bench grpc --quick`; return its rows and its output."""
    figures = tmp_path / "new" / "grpc.json"
    done = bench(
        *("grpc", "--quick", "--json", str(figures), "--svg", str(tmp_path / "grpc.svg")),
        *arguments,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this takes about" in done.stderr
    rows: list[dict[str, Any]] = result(figures, "grpc")["rows"]
    for row in rows:
        assert row.keys() >= set(FIELDS)
        if row["benchmark"] in ("connect", "qps"):
            continue
        assert min(row["p50_us"], row["gb_s"], row["rpc_s"], row["cpu_s_per_gb"]) > 0
        assert 0 < row["server_cpu_s_per_gb"] <= row["cpu_s_per_gb"]
        assert row["p99_us"] >= row["p50_us"]
        assert row["ratio_to_tcp"] == pytest.approx(1) or row["transport"] != "tcp"
        assert min(row["peak_bytes"].values()) > row["size"]
    return rows, done.stdout


def plan_of(*words: str) -> GrpcPlan:
    """Return the plan that these arguments select."""
    return make_plan(parsed(BENCHMARK, *words))


def take(program: Path, tmp_path: Path, *, farwrite: bool) -> Row:
    """Take a turn of small payloads."""
    plan = replace(plan_of("bandwidth", "--quick", "--size", "4K"), tools=Tools(program))
    chosen = TRANSPORTS["farwrite-shm" if farwrite else "tcp"]
    return take_turn(plan, plan.cases[0], chosen, tmp_path)


def run_by(monkeypatch: pytest.MonkeyPatch, *wrapper: str) -> None:
    """Let this run the programs, instead of what runs them over Farwrite."""
    monkeypatch.setattr(Transport, "command", lambda _, *program, required: [*wrapper, *program])


def pretend(monkeypatch: pytest.MonkeyPatch, counters: dict[str, object]) -> None:
    """Let programs over Farwrite run without it, and report these counters."""
    run_by(monkeypatch, sys.executable, "-c", COUNTING, json.dumps(counters))


def test_transports_take_turns_in_every_benchmark_of_the_program(
    tmp_path: Path, program: Path
) -> None:
    rows, shown = measure(
        tmp_path,
        *("latency", "receiver", "connect", "--transport", "tcp", "--transport", "uds"),
        *("--size", "64,100000", "--seconds", "0.2", "--connections", "30"),
        *("--argument", "grpc.http2.write_buffer_size=65536"),
    )
    latency, receiver, connect = (
        [row for row in rows if row["benchmark"] == each]
        for each in ("latency", "receiver", "connect")
    )
    for mine, key, cases in (
        (latency, "size", [64, 100000]),
        (receiver, "reads", [False, True] * 2),
        (connect, "connection", ["first", "new", "idle"]),
    ):
        assert [(row[key], row["transport"]) for row in mine] == [
            (case, transport) for case in cases for transport in ("tcp", "uds")
        ]
    assert {row["copies"] for row in latency} == {None}
    assert [row["server_cpu_of_tcp"] for row in receiver if row["transport"] == "tcp"] == [1] * 4
    assert {row["target"] for row in receiver} == {None}
    for row in connect[:4]:
        assert row["p99_us"] >= row["p50_us"] > 0
        assert row["of_tcp"] == pytest.approx(1 / row["ratio_to_tcp"])
    for row in connect[4:]:
        assert row["connections"] == 30
        assert row["bytes_of_connection"].keys() == {"server", "worker"}
        assert row["bytes_of_connection"]["worker"] > 1000, "gRPC keeps a channel in less"
    assert set(connect[4]["bytes_above_tcp"].values()) == {0}
    assert "uds" in (tmp_path / "grpc.svg").read_text()
    assert shown.count("grpc.http2.max_frame_size=1048576") == 2
    assert shown.count("grpc.http2.write_buffer_size=65536") == 2


def test_every_benchmark_has_rows_of_every_scheme(tmp_path: Path, program: Path) -> None:
    rows, _ = measure(
        tmp_path,
        *PAYLOAD_BENCHMARKS,
        *("--transport", "uds", "--large", "1000000", "--iovec-count", "4"),
        *("--scheme", "uniform", "--scheme", "random", "--scheme", "skew", "--mode", "serialized"),
    )
    schemes = ("uniform", "random", "skew")
    assert [(row["benchmark"], row["scheme"]) for row in rows] == [
        (benchmark, scheme) for benchmark in PAYLOAD_BENCHMARKS for scheme in schemes
    ]
    assert {row["mode"] for row in rows} == {"serialized"}
    of_servers = [row for row in rows if row["benchmark"] == "ps-throughput"]
    assert {(row["servers"], row["workers"]) for row in of_servers} == {(2, 3)}


def test_mpi_answers_the_same_requests(tmp_path: Path, program: Path) -> None:
    try:
        openmpi.find()
    except NotFound as missing:
        pytest.skip(str(missing))
    rows, shown = measure(
        tmp_path,
        *PAYLOAD_BENCHMARKS,
        *("--transport", "tcp", "--transport", "mpi", "--scheme", "uniform"),
    )
    compared = {(row["benchmark"], row["mode"]) for row in rows if row["transport"] == "mpi"}
    assert compared == {(benchmark, "non-serialized") for benchmark in PAYLOAD_BENCHMARKS}
    assert "btl_vader_single_copy_mechanism cma" in shown


def test_the_schemes_have_the_sizes_of_the_papers() -> None:
    def sizes(order: list[str]) -> list[int]:
        return [CATEGORIES[category] for category in order]

    assert sum(sizes(uniform(10))) == 3_030_040
    assert sum(sizes(skewed(10, "large"))) == 6_030_010
    assert sorted(sizes(skewed(10, "small"))) == [10] * 6 + [10_000] * 3 + [1_000_000]
    assert sorted(sizes(skewed(10, "medium"))) == [10] + [10_000] * 6 + [1_000_000] * 3
    assert len(skewed(7, "large")) == 7


@pytest.mark.parametrize("seed", range(20))
def test_a_random_payload_has_two_categories_and_repeats(seed: int) -> None:
    found = drawn(3, ("small", "large"), seed)
    assert set(found) == {"small", "large"}
    assert found == drawn(3, ("small", "large"), seed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--large", "1K"], "a large buffer of 1024 bytes is outside its category"),
        (["--small", "0"], "use 1 to 999 bytes"),
        (["--category", "small", "--category", "small"], "needs at least two categories"),
        (["--iovec-count", "1"], "needs at least two buffers"),
    ],
)
def test_a_payload_that_cannot_be_made_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        plan_of(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["speed"], "no benchmark 'speed'; use latency, bandwidth, ps-throughput, mimic"),
        (["--nodes", "1"], "1 node has no other node to call; use 2 or more"),
        (["--size", "0"], "has no sizes of 1 byte or more"),
        (["--seconds", "0"], "is no length of a turn"),
        (["--argument", "grpc.http2.bdp_probe"], "is not NAME=INTEGER"),
    ],
)
def test_a_bad_option_is_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        plan_of(*words)
    assert message in capsys.readouterr().err


def test_a_farwrite_turn_without_counters_is_refused(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_by(monkeypatch)
    with pytest.raises(FailedPrecondition, match=r"server 0 .* wrote no counters of Farwrite"):
        take(program, tmp_path, farwrite=True)


def test_copies_are_those_of_all_processes(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(
        monkeypatch, {**COUNTERS, "staged_bytes": 300, "borrowed_bytes": 200, "message_bytes": 250}
    )
    assert take(program, tmp_path, farwrite=True)["copies"] == 1
    pretend(monkeypatch, {**COUNTERS, "read_bytes": 1000})
    assert take(program, tmp_path, farwrite=True)["copies"] == 1


@pytest.mark.parametrize(
    ("upgraded", "stayed", "message"),
    [
        (0, {}, r"carried 0 connections .* stayed: none"),
        (1, {"the peer has no Farwrite": 2}, r"stayed: the peer has no Farwrite \(2\)"),
    ],
)
def test_a_farwrite_turn_that_was_not_upgraded_is_refused(
    upgraded: int,
    stayed: dict[str, int],
    message: str,
    tmp_path: Path,
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, {**COUNTERS, "upgraded": upgraded, "stayed": stayed})
    with pytest.raises(FailedPrecondition, match=message):
        take(program, tmp_path, farwrite=True)


def test_counters_of_another_process_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "stats"
    file.write_text(json.dumps({"pid": 1, **COUNTERS}) + "\n")
    assert read_counters(file, 1, "server 0").upgraded == 1
    with pytest.raises(FailedPrecondition, match="wrote no counters"):
        read_counters(file, 2, "server 0")


def test_a_program_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(
        PeerDead, match=r"server 0 .* ended early \(exit status 3\); .*\n    no such luck"
    ):
        take(broken, tmp_path, farwrite=False)


def test_without_grpc_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(build, "SYSTEM", ())
    monkeypatch.setenv("FARWRITE_DEBS", str(tmp_path))
    with pytest.raises(NotFound, match=r"apt install g\+\+ cmake libgrpc\+\+-dev"):
        build.build()
