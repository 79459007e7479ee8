"""farwrite bench train: small runs end to end, its rows and its groups. No test asserts a time."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_of import options, plan_of

from bench_command import bench, result
from farwrite.errors import Internal, InvalidArgument
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.readings import Readings
from farwrite_experiments.train.benchmark import BENCHMARK
from farwrite_experiments.train.graph import split
from farwrite_experiments.train.groups import cases, expected_seconds, groups
from farwrite_experiments.train.pace import FULL, MOST, SHORT
from farwrite_experiments.train.plan import (
    EMULATED,
    FABRICS,
    MIRRORED,
    ONE_PROCESS,
    STOCK,
    TRANSPORTS,
    Case,
    TrainPlan,
    Way,
    ways,
)
from farwrite_experiments.train.rows import RESOLUTION_MS, gain, interval, make_rows, times_less
from farwrite_experiments.train.run import compare
from farwrite_experiments.train.variables import checksum

GIB = 2**30
ALL = ways(list(TRANSPORTS), FABRICS)
OURS_OVER_SHM = next(way for way in ALL if way.key == "farwrite shm")
RPC_SHM = next(way for way in ALL if way.key == "rpc-over-fabric shm")


def train(tmp_path: Path, *words: str, seconds: float = 240) -> dict[str, Any]:
    """Run the command, and return its facts with the rows by transport."""
    figures = tmp_path / "new" / "train.json"
    ended = bench("train", "--quick", *words, "--json", str(figures), seconds=seconds)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return result(figures, "train")


def test_emulated_training_needs_no_copy_and_no_request(tmp_path: Path) -> None:
    facts = train(
        tmp_path, "--model", "gru", "--batch", "1", "--transport", "farwrite", "--fabric", "shm"
    )
    local, ours = facts["rows"]
    assert (local["transport"], ours["transport"]) == ("local", "farwrite")
    assert (ours["fabric"], ours["compute_ms"], ours["workers"]) == ("shm", 30.44, 2)
    assert min(local["step_ms"], ours["step_ms"]) >= 30.44
    # Both workers read 11 variables, and send as many gradients.
    network = 7_319_528 * 4
    assert ours["tensor_bytes_per_step"] == pytest.approx(4 * network, rel=0.02)
    assert ours["copies_per_step"] == ours["requests_per_step"] == 0
    # Memory may still grow in so few steps. A registration for each transfer would be 44.
    assert ours["registrations_per_step"] <= 1
    assert ours["socket_bytes_per_step"] < network / 100


@pytest.mark.slow
@pytest.mark.timeout(380)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--model", "gru"), {"local", "grpc", "rpc-over-fabric", "staged", "farwrite"}),
        (("--model", "gru", "--mode", "model"), {"local", "farwrite"}),
        (("--model", "gru", "--mode", "mirrored"), {"local", "farwrite"}),
        (("--model", "lstm", "--compute", "real", "--batch", "1"), {"local", "farwrite"}),
        (("--model", "mnist_mlp", "--workers", "1,2"), {"local", "farwrite"}),
    ],
    ids=["transports", "model-parallel", "mirrored", "real", "mnist"],
)
def test_a_kind_of_training_has_a_row_for_each_way(
    tmp_path: Path, words: tuple[str, ...], expected: set[str]
) -> None:
    chosen = [word for each in sorted(expected) for word in ("--transport", each)]
    facts = train(tmp_path, *words, *chosen, "--fabric", "shm", seconds=370)
    assert {row["transport"] for row in facts["rows"]} == expected
    for row in facts["rows"]:
        assert min(row["step_ms"], row["samples_s"], row["cpu_s_per_step"]) > 0
        assert row["fabric"] == {"local": "none", "grpc": "tcp"}.get(row["transport"], "shm")
        if row["transport"] == "rpc-over-fabric":
            assert row["requests_per_step"] == 44  # 11 variables and gradients of two workers
            assert row["copies_per_step"] > 0
        if row["transport"] == "staged":
            assert row["copies_per_step"] > 0
        if row["transport"] == "farwrite":
            assert row["tensor_bytes_per_step"] > 0 or row["mode"] == MIRRORED


def _case(**more: Any) -> Case:
    return Case("gru", EMULATED, 8, **more)


def _turn(seconds: float, task: str = "a", **counters: int) -> Turn:
    def reading(values: dict[str, int]) -> Readings:
        return Readings(task, 0, 0, 0.0, 0, 0, values, ("shm",))

    before = reading(dict.fromkeys(counters, 0))
    return Turn([seconds, seconds], [before], [reading(counters)])


def test_communication_is_the_step_less_the_local_step_of_the_same_round() -> None:
    # The machine slows down from round to round; the difference stays 100 ms, and stock's 400 ms.
    turns = {
        ONE_PROCESS.key: [_turn(each) for each in (1.0, 2.0, 3.0)],
        STOCK.key: [_turn(each + 0.4) for each in (1.0, 2.0, 3.0)],
        OURS_OVER_SHM.key: [
            _turn(each + 0.1, copies=4, bytes_pushed=6) for each in (1.0, 2.0, 3.0)
        ],
    }
    local, stock, ours = make_rows(_case(), [ONE_PROCESS, STOCK, OURS_OVER_SHM], turns, 0.25)
    assert (local["comm_ms"], local["of_grpc"]) == (0.0, None)
    assert (stock["comm_ms"], stock["of_grpc"]) == (400.0, None)
    assert ours["comm_ms"] == pytest.approx(100.0)
    assert ours["comm_ms_ci"] == pytest.approx([100.0, 100.0])
    assert ours["of_grpc"]["median"] == pytest.approx(4.0)
    assert ours["of_grpc"]["at_least"] is None
    assert ours["of_rpc"] is None
    assert ours["samples_s"] == pytest.approx(16 / 2.1, rel=1e-3)
    assert ours["speedup"] == pytest.approx(2.4 / 2.1, rel=1e-3)
    assert (ours["copies_per_step"], ours["tensor_bytes_per_step"]) == (2.0, 3.0)
    assert (ours["fabric"], stock["fabric"], local["fabric"]) == ("shm", "tcp", "none")


def test_rpc_over_fabric_is_compared_with_over_the_same_fabric_alone() -> None:
    over_tcp = next(way for way in ALL if way.key == "farwrite tcp")
    order = [ONE_PROCESS, RPC_SHM, OURS_OVER_SHM, over_tcp]
    turns = {
        way.key: [_turn(1.0 + extra)] * 3
        for way, extra in zip(order, (0, 0.6, 0.2, 0.3), strict=True)
    }
    rows = make_rows(_case(), order, turns, 0.0)
    assert [row["of_rpc"] and row["of_rpc"]["median"] for row in rows] == [None, None, 3.0, None]


def test_a_ratio_has_no_upper_end_where_communication_may_be_nothing() -> None:
    theirs = np.array([90.0, 100.0, 110.0, 100.0])
    certain = times_less(theirs, np.array([10.0, 11.0, 9.0, 10.0]))
    assert certain == {
        "median": pytest.approx((100 / 11 + 10) / 2, abs=1e-3),
        "low": pytest.approx(9.0),
        "high": pytest.approx(110 / 9, abs=1e-3),
        "at_least": None,
    }
    # The lowest of theirs, over the highest of ours or half of the width, whichever is more.
    assert times_less(theirs, np.array([-1.0, 1.0, 2.0, 0.5])) == _bound(90 / 2)
    assert times_less(theirs, np.array([-9.0, 1.0, 1.0, 0.5])) == _bound(90 / 5)
    # What lies below 0 shows how far the floor may be off.
    assert times_less(theirs, np.array([-45.1, -45.0, -45.0, -45.0])) == _bound(90 / 45.1)
    assert times_less(theirs, np.array([-1e-6, 1e-6, 0.0, 0.0])) == _bound(90 / RESOLUTION_MS)
    # Nor is there a ratio if theirs may be nothing.
    assert times_less(theirs - 95, theirs) is None


def _bound(value: float) -> dict[str, float | None]:
    value = pytest.approx(value, abs=1e-3)
    return {"median": None, "low": value, "high": None, "at_least": value}


def test_an_interval_leaves_out_as_many_rounds_as_the_sign_test_allows() -> None:
    ends = [interval(np.arange(float(rounds))) for rounds in (1, 2, 5, 6, 8, 9, 14, 20)]
    assert ends == [(0, 0), (0, 1), (0, 4), (0, 5), (0, 7), (1, 7), (2, 11), (5, 14)]


def test_ways_of_other_rounds_are_compared_by_their_gain_over_stock() -> None:
    def of_group(*ways_and_seconds: tuple[Way, float]) -> dict[str, Any]:
        turns = {way.key: [_turn(seconds)] * 3 for way, seconds in ways_and_seconds}
        *_, last = make_rows(_case(), [way for way, _ in ways_and_seconds], turns, 0.0)
        return last

    # The machine was twice as slow when rpc-over-fabric was measured.
    ours = of_group((ONE_PROCESS, 1.0), (STOCK, 4.0), (OURS_OVER_SHM, 2.0))
    rpc = of_group((ONE_PROCESS, 2.0), (STOCK, 8.0), (RPC_SHM, 6.0))
    assert gain(ours, rpc) == pytest.approx(1.5, rel=1e-2)
    both = of_group((ONE_PROCESS, 1.0), (RPC_SHM, 3.0), (OURS_OVER_SHM, 2.0))
    slower = [1.5 * each for each in both["step_ms_rounds"]]
    assert gain(both, {**both, "step_ms_rounds": slower}) == pytest.approx(1.5)
    assert gain(ours, both) is None  # stock was not beside it


def test_transports_that_end_with_different_variables_are_an_error() -> None:
    compare("bench train: gru", {"local": [[1, 2]], "farwrite shm": [[1, 2]]})
    with pytest.raises(Internal, match=r"gru, farwrite shm and local have different values"):
        compare("bench train: gru", {"local": [[1, 2]], "farwrite shm": [[1, 3]]})


def test_a_checksum_shows_every_bit_that_differs() -> None:
    tf = importlib.import_module("tensorflow")
    values = np.linspace(-1, 1, 1000, dtype=np.float32)
    other = values.copy()
    other[517] = np.nextafter(other[517], np.float32(2))
    zero = np.zeros(3, np.float32)
    assert int(checksum(tf, values)) == int(checksum(tf, values.copy()))
    assert int(checksum(tf, values)) != int(checksum(tf, other))
    assert int(checksum(tf, zero)) != int(checksum(tf, -zero))


def test_groups_fit_into_memory_and_each_has_its_own_stock_and_local() -> None:
    wanted = [Case("vgg16", EMULATED, 8), _case()]
    divided = groups(wanted, ALL, 20 * GIB)
    for group in divided:
        assert group.ways[:2] == (ONE_PROCESS, STOCK)
    for case in wanted:
        of_case = [group for group in divided if group.case == case]
        found = [way.key for group in of_case for way in group.ways[2:]]
        assert found == [way.key for way in ALL if way not in (ONE_PROCESS, STOCK)]
    assert [group.case.model for group in divided].count("vgg16") > 1
    assert len(groups(wanted[:1], ALL, 200 * GIB)) == 1
    # Even a machine that is too small tries.
    assert all(len(group.ways) == 3 for group in groups(wanted[:1], ALL, GIB))


def test_collectives_are_not_measured_over_what_has_none() -> None:
    (group,) = groups([_case(mode=MIRRORED)], [ONE_PROCESS, RPC_SHM, OURS_OVER_SHM], 50 * GIB)
    assert group.ways == (ONE_PROCESS, OURS_OVER_SHM)


def test_the_default_run_takes_at_most_ten_minutes() -> None:
    arguments = _arguments()
    made = groups(cases(arguments, SHORT), ways(list(TRANSPORTS)), 22 * GIB)
    assert 0 < expected_seconds(TrainPlan(made, SHORT)) <= 600


def test_short_steps_get_more_rounds() -> None:
    assert SHORT.rounds_of(1, 100.0) == SHORT.rounds
    assert SHORT.rounds_of(1, 1e-3) == MOST
    assert SHORT.rounds < SHORT.rounds_of(1, SHORT.case_seconds / 14) < MOST
    assert FULL.rounds_of(FULL.steps, 1e-3) == FULL.rounds


def test_workers_that_do_not_wait_for_each_other_take_many_steps_in_a_turn() -> None:
    assert [SHORT.steps_of(step, sync=True) for step in (1e-3, 10.0)] == [1, 1]
    assert [SHORT.steps_of(step, sync=False) for step in (1e-3, 0.02, 10.0)] == [200, 50, 5]
    assert FULL.steps_of(10.0, sync=False) == FULL.steps


def test_without_the_option_model_the_six_networks_are_emulated() -> None:
    made = cases(_arguments(), SHORT)
    models = ("alexnet", "inception_v3", "vgg16", "lstm", "gru", "fcn5")
    assert tuple(case.model for case in made) == models
    assert {(c.compute, c.batch, c.servers, c.workers, c.sync) for c in made} == {
        (EMULATED, 8, 1, 2, True)
    }
    assert [case.batch for case in cases(_arguments("--model", "gru"), FULL)] == list(FULL.batches)


def test_the_mnist_network_is_asynchronous_and_computes() -> None:
    made = cases(_arguments("--model", "mnist_mlp", "--workers", "1,2,3"), SHORT)
    assert [(c.compute, c.batch, c.sync, c.workers) for c in made] == [
        ("real", 100, False, workers) for workers in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "mnist_mlp", "--compute", "emulated"),
        ("--mode", "model", "--workers", "3"),
        ("--mode", "mirrored", "--workers", "1"),
        ("--mode", "mirrored", "--asynchronous"),
        ("--mode", "mirrored", "--transport", "rpc-over-fabric"),
    ],
)
def test_options_that_exclude_each_other_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match="bench train: "):
        cases(_arguments(*words), SHORT)


def test_a_full_run_is_not_quick() -> None:
    with pytest.raises(InvalidArgument, match="--full and --quick exclude each other"):
        plan_of(BENCHMARK, "bench", "train", "--full", "--quick")


def test_a_model_is_split_where_half_of_its_multiplications_are_done() -> None:
    for key in ("alexnet", "vgg16", "fcn5", "lstm"):
        layers = Case(key, EMULATED, 1).network.layers
        first = split(layers)
        assert 0 < first < len(layers)


def test_ways_always_have_what_communication_is_compared_with() -> None:
    assert ways([], FABRICS) == [ONE_PROCESS]
    assert [way.key for way in ways(["farwrite", "grpc"], ["tcp"])] == [
        *("local", "grpc", "farwrite tcp")
    ]
    assert Way(TRANSPORTS["staged"], "shm").key == "staged shm"


def _arguments(*words: str) -> Any:
    return options(BENCHMARK, "bench", "train", *words)
