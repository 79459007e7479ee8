"""farwrite bench tensor: small runs end to end. Nothing here asserts a time."""

from __future__ import annotations

import argparse
import contextlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from bench_command import bench, result
from farwrite.errors import ResourceExhausted
from farwrite_bench.cluster.group import Group, RefusedError, Take
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.cluster.seat import Look
from farwrite_bench.cluster.transport import FARWRITE, GRPC
from farwrite_bench.cluster.ways import Running
from farwrite_bench.harness import memory
from farwrite_bench.record import Record
from farwrite_bench.tensor import run as bench_run
from farwrite_bench.tensor.benchmark import (
    BENCHMARK,
    DEFAULT_SIZES,
    beside_grpc,
    expected_seconds,
    memory_of,
    plan,
)
from farwrite_bench.tensor.plan import (
    CONSUMERS,
    LOCAL,
    RAW,
    SMALL_CASES,
    TRANSPORTS,
    Block,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.rows import added, failed_row, make_row, ratios

KIB = 1024
ROW_KEYS = {
    "transport",
    "fabric",
    "consumer",
    "size",
    "step_ms",
    "empty_step_ms",
    "added_us",
    "added_us_ci",
    "copies",
    "socket_bytes",
    "cpu_ms",
    "control",
    "load",
}


def measure(tmp_path: Path, *options: str) -> tuple[dict[str, Any], str]:
    figures, drawn = tmp_path / "new" / "tensor.json", tmp_path / "tensor.svg"
    ended = bench(
        *("tensor", "--rounds", "2", "--json", str(figures), "--svg", str(drawn)), *options
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ElementTree.parse(drawn).getroot().tag.endswith("svg")
    assert "prefers-color-scheme: dark" in drawn.read_text()
    return result(figures, "tensor"), ended.stdout


@pytest.mark.slow
def test_stock_grpc_and_one_process_fill_their_rows(tmp_path: Path) -> None:
    facts, printed = measure(
        tmp_path, "--transport", "grpc", "--transport", "local", "--sizes", "4K,256K"
    )
    rows = facts["rows"]
    found = [(row["consumer"], row["size"], row["transport"], row["fabric"]) for row in rows]
    assert found == [
        ("slice", 4 * KIB, "grpc", "tcp"),
        ("slice", 256 * KIB, "grpc", "tcp"),
        ("reduce_max", 4 * KIB, "grpc", "tcp"),
        ("reduce_max", 4 * KIB, "local", "none"),
        ("reduce_max", 256 * KIB, "grpc", "tcp"),
        ("reduce_max", 256 * KIB, "local", "none"),
        ("parallel", 4 * KIB, "grpc", "tcp"),
        ("parallel", 4 * KIB, "local", "none"),
        ("chain", 256, "grpc", "tcp"),
        ("chain", 256, "local", "none"),
    ]
    for row in rows:
        assert row.keys() >= ROW_KEYS
        assert row["error"] is None
        assert min(row["step_ms"], row["empty_step_ms"], row["steps"]) > 0
        low, high = row["added_us_ci"]
        assert low <= high
        assert row["cpu_ms"] > 0
        assert row["copies"] is None and row["control"] is None  # TensorFlow does not count them
        if row["transport"] == "local":
            assert row["socket_bytes"] < 4 * KIB
        elif row["consumer"] in ("slice", "reduce_max"):
            # A reading may be taken before the last bytes are acknowledged.
            assert abs(row["socket_bytes"] - row["size"]) < 16 * KIB + row["size"] // 4
        elif row["consumer"] == "parallel":
            assert row["socket_bytes"] > 15 * row["size"]
    assert "256 KiB" in printed


def test_farwrite_moves_the_tensor_past_the_sockets(tmp_path: Path) -> None:
    facts, _ = measure(
        *(tmp_path, "--transport", "farwrite", "--transport", "staged", "--sizes", "1M"),
        *("--consumer", "slice", "--consumer", "parallel"),
    )
    for row in facts["rows"]:
        assert row["control"]["farwrite"] > 0
        assert row["control"]["grpc"] == 0
        assert row["fabric"] == "shm"
        assert row["socket_bytes"] < 16 * KIB
        copied = row["transport"] == "staged" and row["consumer"] == "slice"
        assert row["copies"] == (1 if copied else 0)
        assert row["grpc_tensor_calls"] == 0


@pytest.mark.slow
def test_over_tcp_it_stands_beside_a_raw_socket(tmp_path: Path) -> None:
    facts, printed = measure(
        tmp_path,
        *("--fabric", "tcp", "--consumer", "slice", "--sizes", "1M,16M"),
        *("--transport", "farwrite", "--transport", "raw"),
    )
    found = [(row["size"], row["transport"], row["fabric"]) for row in facts["rows"]]
    assert found == [
        (size * KIB * KIB, transport, "tcp")
        for size in (1, 16)
        for transport in ("farwrite", "raw")
    ]
    for row in facts["rows"]:
        assert row["error"] is None
        # A reading may be taken before the last bytes have arrived.
        assert abs(row["socket_bytes"] - row["size"]) < 64 * KIB
        assert (row["of_raw"] is None) == (row["transport"] == "raw")
        if row["transport"] == "farwrite":
            assert row["of_raw"] > 0 and row["copies"] == 0 and row["grpc_tensor_calls"] == 0
    assert "TCP_NODELAY" in " ".join(facts["notes"])
    assert "of the raw socket (target 0.85" in printed


def readings(sent: int, counters: dict[str, int] | None = None) -> list[Readings]:
    return [Readings("ps:0", sent, 0, 0.0, 0, 0, counters, ("shm",) if counters else ())]


def block(empty: float, full: float, sent: int = 0) -> Block:
    return Block([full] * 4, readings(0), readings(sent), empty=[empty] * 4)


def test_added_time_is_the_median_of_paired_differences() -> None:
    # Other load slows all steps of one round, with the tensor and without it.
    figures = added([block(0.001, 0.0015), block(0.011, 0.0115), block(0.001, 0.0015)])
    assert figures == {"added_us": 500.0, "added_us_ci": [500.0, 500.0]}
    low, high = added([block(0.001, 0.0015), block(0.001, 0.0025)])["added_us_ci"]
    assert (low, high) == (500.0, 1500.0)


def test_a_row_takes_control_out_of_the_comparison_with_one_process() -> None:
    case = Case("reduce_max", 16)
    local = [block(0.001, 0.003)] * 3
    row = make_row(case, TRANSPORTS["grpc"], [block(0.002, 0.008, sent=80)] * 3, local, 0.1)
    assert row["vs_local"] == pytest.approx(8 / 3, abs=1e-3)
    assert row["vs_local_same_control"] == 2.0  # (2 + 6) / (2 + 2)
    assert row["socket_bytes"] == 20  # 80 in 4 steps
    counted = Block([1.0], readings(0, {"copies": 3}), readings(0, {"copies": 5}), empty=[1.0])
    assert make_row(case, TRANSPORTS["farwrite"], [counted], None, 0.1)["copies"] == 2


def test_control_calls_are_of_a_step_and_by_way() -> None:
    counters = {"control_calls": 6, "grpc_control_calls": 2}
    before, after = readings(0, dict.fromkeys(counters, 0)), readings(0, counters)
    turn = Block([1.0] * 4, before, after, empty=[1.0])
    case = Case("parallel", 16)
    assert make_row(case, TRANSPORTS["farwrite"], [turn], None, 0.1)["control"] == {
        "farwrite": 1.5,
        "grpc": 0.5,
    }
    assert make_row(case, TRANSPORTS["grpc"], [turn], None, 0.1)["control"] is None


def test_the_default_run_ends_within_ten_minutes() -> None:
    cases = [Case(name, size) for name in CONSUMERS for size in DEFAULT_SIZES]
    plan = TensorPlan(tuple(TRANSPORTS.values()), (*cases, *SMALL_CASES.values()), 25, 10.0)
    assert expected_seconds(plan) < 600


def test_the_share_of_a_raw_socket_is_of_bandwidth() -> None:
    case = Case("slice", 16)
    raw = [block(0.001, 0.005)] * 3
    row = make_row(case, TRANSPORTS["farwrite"], [block(0.002, 0.010)] * 3, None, 0.1, raw)
    assert row["of_raw"] == 0.5  # 4 ms there, 8 ms here
    assert make_row(case, TRANSPORTS["raw"], raw, None, 0.1, raw)["of_raw"] is None


def test_what_a_tensor_adds_is_compared_with_stock_grpc() -> None:
    def row(transport: str, added_us: float | None, **more: Any) -> dict[str, Any]:
        found = {"consumer": "slice", "size": 16, "transport": transport, "added_us": added_us}
        return {**found, "error": None, **more}

    rows = [row("grpc", 80.0), row("staged", 40.0), row("farwrite", 20.0), row("local", 10.0)]
    shares = [each["of_grpc"] for each in beside_grpc({"rows": rows})]
    assert shares == [1.0, 0.5, 0.25, None], "one process is no transport"
    assert ratios({"rows": rows}, "grpc") == [("slice", 16, 4.0)]
    rows[0] = row("grpc", None, error="too large")
    assert [each["of_grpc"] for each in beside_grpc({"rows": rows})] == [None] * 4
    assert ratios({"rows": rows}, "grpc") == []


def test_a_transport_that_fails_does_not_stop_the_others() -> None:
    class Client:
        def __init__(self, key: str) -> None:
            self.key = key

        def open(self, *_: object) -> RefusedError | None:
            return RefusedError("UnavailableError: too large\nmore") if self.key == "grpc" else None

        def close(self) -> None:
            """Nothing is open."""

        def ask(self, order: Any) -> object:
            if isinstance(order, Look):
                return readings(0)[0]
            return [0.001] * order.count if isinstance(order, Take) else order(self)

    case = Case("reduce_max", 16)
    plan = TensorPlan((GRPC, LOCAL), (case,), rounds=5, case_seconds=1)
    clients: Any = {key: Client(key) for key in ("grpc", "local")}
    running = Running(contextlib.ExitStack())
    running.groups |= {key: Group(client) for key, client in clients.items()}
    rows = bench_run._measure(plan, running, case, 1, lambda *_: None)
    assert [row["error"] is None for row in rows] == [False, True]
    (table,) = BENCHMARK.tables
    (failed, _) = table.cells({"rows": rows})
    assert failed[4:] == ["-"] * 11 + ["failed: UnavailableError: too large"]
    assert "grpc" in running.groups, "its client goes on behind a refusal"
    assert failed_row(case, TRANSPORTS["grpc"], "x", 0).keys() >= ROW_KEYS


def options(**changes: Any) -> argparse.Namespace:
    facts = {
        **{"transport": None, "consumer": ("slice",), "sizes": (KIB,), "chain": False},
        **{"rounds": 2, "seconds": 1.0, "fabric": None},
    }
    return argparse.Namespace(**{**facts, **changes})


def test_the_options_choose_transports_and_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    available = 64 << 30
    monkeypatch.setattr(memory, "memory_available", lambda: available)
    made = plan(options(chain=True), Record("tensor", quick=True))
    assert RAW not in made.transports and made.cases == (Case("slice", KIB), Case("chain", 256))
    record = Record("tensor", quick=True)
    made = plan(options(fabric="tcp", sizes=(0,), consumer=("slice", "parallel")), record)
    assert RAW in made.transports and made.cases == (Case("parallel", 4 * KIB),)
    assert "TCP_NODELAY" in record.notes[-1]
    available = 1 << 30
    made = plan(options(consumer=("slice", "parallel")), record)
    assert made.cases == (Case("parallel", 4 * KIB),)
    assert record.notes[-1] == "too little memory is available for 1 KiB; left out"
    with pytest.raises(ResourceExhausted, match="a tensor of 1 KiB needs"):
        plan(options(), record)


def test_takes_no_more_memory_than_there_is() -> None:
    gib = 1 << 30
    both = (GRPC, FARWRITE)
    assert memory_of(gib, both, over_tcp=False) == (4 + 4 + 1.5) * gib
    assert memory_of(gib, both, over_tcp=True) == (4 + 4 + 1.5 + 1) * gib
    assert memory_of(2 * gib, both, over_tcp=False) == (4 + 3) * gib, "gRPC cannot send as much"
    assert memory_of(0, both, over_tcp=True) == 0


@pytest.mark.parametrize("option", [["--sizes", "5"], ["--sizes", "big"], ["--transport", "x"]])
def test_bad_options_say_why(option: list[str]) -> None:
    ended = bench("tensor", *option)
    assert ended.returncode == 2
    assert option[0] in ended.stderr
