"""A small end-to-end run of ``farwrite bench assign``. No test asserts a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench_command import bench, result
from farwrite.errors import FailedPrecondition
from farwrite_bench.assign.benchmark import make_rows, require_moved, sentences
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.readings import Readings

MEGABYTE = 10**6


@pytest.mark.slow
def test_three_ways_add_in_turn_and_farwrite_moves_every_vector(tmp_path: Path) -> None:
    figures = tmp_path / "new" / "assign.json"
    ended = bench(
        "assign", *("--megabytes", "1", "--rounds", "2", "--steps", "3", "--json", str(figures))
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = result(figures, "assign")
    local, stock, ours = facts["rows"]
    assert [row["way"] for row in facts["rows"]] == ["local", "grpc", "farwrite"]
    assert [row["fabric"] for row in facts["rows"]] == ["none", "tcp", "shm"]
    assert all(len(row["gb_s_rounds"]) == 2 and row["steps"] == 6 for row in facts["rows"])
    assert stock["times_grpc"] == local["of_local"] == {"median": 1, "low": 1, "high": 1}
    assert (ours["tensors"], ours["grpc_tensor_calls"], ours["copies"]) == (1, 0, 0)
    assert local["socket_bytes"] < 1000
    assert stock["socket_bytes"] > MEGABYTE / 2  # a reading may precede the last bytes' ack
    assert ours["socket_bytes"] < MEGABYTE / 20
    assert facts["settings"]["sizes"] == [MEGABYTE]
    assert "1 MB, 2 rounds of 3 steps after 2 of warm-up" in ended.stdout
    assert "over Farwrite" in ended.stdout


def readings(seconds: float = 0.0, counters: dict[str, int] | None = None) -> list[Readings]:
    return [Readings("ps:0", 0, 0, seconds, 0, 0, counters, ("shm",) if counters else ())]


def turns(*seconds: float, counters: dict[str, int] | None = None) -> list[Turn]:
    """Turns of two steps that each take `seconds`."""
    none = None if counters is None else dict.fromkeys(counters, 0)
    return [Turn([each] * 2, readings(0, none), readings(0.5, counters)) for each in seconds]


def test_rates_are_medians_and_ratios_are_taken_within_a_round() -> None:
    moved = {"pushes_alias": 2, "bytes_pushed": 2 * MEGABYTE}
    rows = make_rows(
        MEGABYTE,
        {
            "local": turns(0.001, 0.001, 0.002),
            "grpc": turns(0.010, 0.020, 0.050),
            "farwrite": turns(0.002, 0.002, 0.005, counters=moved),
        },
        dict.fromkeys(("local", "grpc", "farwrite"), [[0.001] * 2] * 3),
        load=0.1,
    )
    _, stock, ours = rows
    assert stock["gb_s"] == 0.05
    assert ours["gb_s_rounds"] == [0.5, 0.5, 0.2]
    assert ours["times_grpc"] == {"median": 10, "low": 5, "high": 10}
    assert ours["of_local"] == {"median": 0.5, "low": 0.4, "high": 0.5}
    assert (ours["tensors"], stock["tensors"], ours["cpu_ms"]) == (1, None, 250)
    assert sentences({"rows": rows}) == [
        "1 MB: 0.5 GB/s over Farwrite, 10 times the 0.05 GB/s over stock gRPC, and 0.5 of the"
        " 1 GB/s in one process"
    ]


@pytest.mark.parametrize(
    "counters",
    [
        {"pushes_alias": 9, "bytes_pushed": 9 * MEGABYTE},
        {"pushes_alias": 10, "bytes_pushed": 9 * MEGABYTE},
        {"pushes_alias": 10, "bytes_pushed": 10 * MEGABYTE, "grpc_recv_tensor_calls": 1},
    ],
)
def test_steps_that_farwrite_did_not_move_are_an_error(counters: dict[str, float]) -> None:
    require_moved(MEGABYTE, 10, {"pushes_landed": 10, "bytes_pushed": 10 * MEGABYTE})
    with pytest.raises(FailedPrecondition, match="pulls_no_memory 4"):
        require_moved(MEGABYTE, 10, {**counters, "pulls_no_memory": 4})


@pytest.mark.parametrize(
    "option",
    [["--megabytes", "0"], ["--megabytes", "big"], ["--megabytes", "3000"], ["--rounds", "0"]],
)
def test_bad_options_are_refused_with_the_reason(option: list[str]) -> None:
    ended = bench("assign", *option)
    assert ended.returncode == 2
    assert option[0] in ended.stderr
