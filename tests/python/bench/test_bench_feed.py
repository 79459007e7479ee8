"""farwrite bench feed: small runs end to end, and its rows. Nothing here asserts a time."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench_command import bench, result
from farwrite.errors import Internal
from farwrite_bench.cluster.group import Turn
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.feed.benchmark import (
    ROUNDS,
    SIZE_SECONDS,
    SIZES,
    TARGETS,
    WAYS,
    Feeds,
    expected_seconds,
    make_rows,
    scheme,
)

KIB = 1024


@pytest.mark.slow
def test_both_servers_give_back_what_was_fed(tmp_path: Path) -> None:
    figures = tmp_path / "new" / "feed.json"
    ended = bench("feed", "--rounds", "2", "--sizes", "4K,1M", "--json", str(figures))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = result(figures, "feed")
    found = [(row["size"], row["operation"], row["way"]) for row in facts["rows"]]
    assert found == [
        (size, operation, way)
        for size in (4 * KIB, 1024 * KIB)
        for operation in ("feed", "fetch")
        for way in WAYS
    ]
    for row in facts["rows"]:
        assert min(row["ms"], row["gb_s"], row["cpu_ms"], row["steps"]) > 0
        assert len(row["ms_rounds"]) == row["rounds"] == 2
        if row["way"] == "grpc":
            assert row["target"] == "grpc" and row["by_grpc"] is None
            # A reading may be taken before the last bytes are acknowledged.
            assert row["socket_bytes"] > row["size"] / 2
        else:
            assert row["target"] == "grpc+farwrite" and row["by_grpc"] == 0
    assert "1 MiB" in ended.stdout


def plan(target: str) -> Namespace:
    return Namespace(target=target)


def turn(seconds: float, counters: dict[str, int] | None = None) -> Turn:
    def readings(counters: dict[str, int] | None) -> list[Readings]:
        return [Readings("worker:0", 0, 0, 0.0, 0, 0, counters, ())]

    none = None if counters is None else dict.fromkeys(counters, 0)
    return Turn([seconds] * 2, readings(none), readings(counters))


def test_a_row_has_the_rate_and_the_tensors_that_went_by_grpc() -> None:
    rows = make_rows(
        plan("grpc"),
        KIB,
        {
            "feed": {
                "grpc": [turn(0.002), turn(0.004)],
                "farwrite": [turn(0.001, {"grpc_feeds": 2}), turn(0.001, {"grpc_feeds": 2})],
            },
            "fetch": {"farwrite": [turn(0.001, {"grpc_fetches": 0})]},
        },
        load=0.1,
    )
    stock, fed, fetched = rows
    assert (stock["ms"], stock["by_grpc"]) == (3, None)
    assert fed["gb_s"] == round(KIB / 1e6, 6)
    assert fed["of_grpc"] == {"median": 0.375, "low": 0.25, "high": 0.5}
    assert fed["by_grpc"] == 1
    assert (fetched["of_grpc"], fetched["by_grpc"]) == (None, 0)


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_session_at_farwrites_server_has_the_chosen_target(target: str) -> None:
    assert [scheme(plan(target), way) for way in WAYS] == ["grpc", target]


def test_a_fetch_of_other_values_is_an_error() -> None:
    feeds = Feeds.__new__(Feeds)
    feeds._array, feeds._turns = np.ones(2048, np.float32), 0
    feeds._fed = feeds._assign = feeds._value = None
    kept: list[np.ndarray] = []
    feeds._session = SimpleNamespace(
        run=lambda _, fed=None: kept[-1].copy() if fed is None else kept.append(fed[None].copy())
    )
    assert len(feeds.feed(2)) == 2
    assert len(feeds.fetch(3)) == 3
    kept[-1][17] += 1
    with pytest.raises(Internal, match="1 of 2048"):
        feeds.fetch(1)


def test_the_default_run_ends_within_ten_minutes() -> None:
    plan = Namespace(sizes=SIZES, way=WAYS, rounds=ROUNDS, seconds=SIZE_SECONDS)
    assert expected_seconds(plan) < 600


@pytest.mark.parametrize(
    "option",
    [["--sizes", "5"], ["--sizes", "2G"], ["--sizes", "0"], ["--target", "x"], ["--rounds", "0"]],
)
def test_bad_options_are_refused_with_the_reason(option: list[str]) -> None:
    ended = bench("feed", *option)
    assert ended.returncode == 2
    assert option[0] in ended.stderr
