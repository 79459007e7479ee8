"""Small end-to-end runs of ``farwrite bench box``. No test asserts a time."""

from __future__ import annotations

import argparse
import re
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_command import bench, result
from farwrite.errors import NotFound, PeerDead
from farwrite_bench import _native
from farwrite_bench.box import emulation, openmpi
from farwrite_bench.box.benchmark import BENCHMARK
from farwrite_bench.box.mpi import one_sided, preposted, shared
from farwrite_bench.box.openmpi import OpenMpi, mpi_ranks
from farwrite_bench.box.plan import (
    BOX_SHM,
    BOX_TCP,
    GIB,
    MPI,
    MPI_SHARED,
    NETWORKS,
    BoxPlan,
    workers,
)
from farwrite_bench.box.process import Call, ask, opened
from farwrite_bench.box.rows import FIELDS, compared
from farwrite_bench.box.rows import row as make_row
from farwrite_bench.box.worker import emulate
from farwrite_bench.harness import command
from farwrite_bench.record import Record
from self_contained import check_page

TRANSPORTS = [BOX_SHM, BOX_TCP, MPI, MPI_SHARED]


@pytest.fixture(scope="session")
def mpi() -> OpenMpi:
    try:
        return openmpi.find()
    except NotFound as missing:
        pytest.skip(str(missing))


@pytest.fixture
def no_mpi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Hide every OpenMPI of this machine."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    yield


def measure(tmp_path: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run `bench box --quick`; return its JSON file and its output."""
    figures = tmp_path / "new" / "box.json"
    done = bench(
        *("box", "--quick", "--json", str(figures), "--svg", str(tmp_path / "box.svg")),
        *("--report", str(tmp_path / "box.html"), *arguments),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "this takes about" in done.stderr
    facts = result(figures, "box")
    for row in facts["rows"]:
        assert row.keys() >= set(FIELDS)
    return facts, done.stdout


def test_every_transport_of_the_emulation_keeps_every_update(tmp_path: Path, mpi: OpenMpi) -> None:
    facts, shown = measure(tmp_path, "--test", "emulation", "--model", "inception_v1")
    assert [row["transport"] for row in facts["rows"]] == TRANSPORTS
    for row in facts["rows"]:
        assert (row["test"], row["model"], row["workers"]) == ("emulation", "inception_v1", 2)
        assert row["verified"] is True
        assert row["comm_ms"] >= 0
        assert row["compute_ms"] == pytest.approx(18.9)
        assert row["skipped"] is None
    of_mpi = facts["rows"][TRANSPORTS.index(MPI)]
    assert of_mpi["variants"].keys() == {"preposted", "one-sided"}
    assert of_mpi["comm_ms"] == min(of_mpi["variants"].values())
    assert facts["rows"][0]["ratio"] > 0
    assert "btl_vader_single_copy_mechanism cma" in facts["settings"]["mpi"]
    assert facts["settings"]["mpi"] in shown
    assert "box-tcp" in (tmp_path / "box.svg").read_text()
    page = (tmp_path / "box.html").read_text()
    check_page(page, "svg", "table")
    assert "Inception-v1 x 2" in page
    assert facts["settings"]["mpi"] in page


def test_a_read_over_tcp_stands_beside_a_plain_socket(tmp_path: Path) -> None:
    facts, _ = measure(tmp_path, "--test", "latency", "--transport", BOX_TCP)
    [row] = facts["rows"]
    assert min(row["p50_us"], row["p99_us"], row["limit_us"], row["ratio"]) > 0
    assert row["target"] == "<=1.3"


def test_the_box_moves_adds_and_publishes(tmp_path: Path) -> None:
    facts, _ = measure(
        tmp_path,
        *("--test", "bandwidth", "--test", "accumulate", "--test", "latency"),
        *("--test", "publish", "--transport", "box-shm"),
    )
    rows = {(row["test"], row["transport"]): row for row in facts["rows"]}
    moved = rows["bandwidth", BOX_SHM]
    assert moved["workers"] == 2
    assert min(moved["gb_s"], moved["limit_gb_s"], moved["ratio"]) > 0
    added = [row for row in facts["rows"] if row["test"] == "accumulate"]
    assert [row["dtype"] for row in added] == ["float32", "bfloat16"]
    assert all(min(row["gb_s"], row["limit_gb_s"]) > 0 for row in added)
    assert rows["latency", BOX_SHM]["p50_us"] > 0
    published = rows["publish", BOX_SHM]
    assert (published["copies_publisher"], published["copies_reader"]) == (1, 0)
    assert published["visible_ms"] > 0
    assert ("publish", "shared-memory") in rows
    by_file = rows["publish", "torch-file" if find_spec("torch") else "numpy-file"]
    assert (by_file["copies_publisher"], by_file["copies_reader"]) == (1, 1)
    assert by_file["visible_ms"] > 0
    page = (tmp_path / "box.html").read_text()
    check_page(page, "table")
    assert "box-shm x 2" in page
    assert f"{moved['limit_gb_s']:.2f}" in page
    verdict = "ok" if moved["target_met"] else "MISSED"
    assert f"<td>{moved['target']} {verdict}</td>" in unescape(page)


def test_a_selection_that_measures_nothing_is_refused() -> None:
    done = bench("box", "--test", "latency", "--test", "publish", "--transport", "mpi")
    assert done.returncode == 2
    assert "only --test emulation measures mpi; add it, or --transport box-shm" in done.stderr
    assert "p50" not in done.stdout


def test_without_openmpi_its_rows_are_skipped_and_say_how_to_get_it(
    no_mpi: None, tmp_path: Path
) -> None:
    parser = argparse.ArgumentParser()
    command.add_parser(BENCHMARK, "what it measures", parser.add_subparsers())
    arguments = parser.parse_args(["box", "--transport", "mpi", "--model", "vgg16", "--quick"])
    for each in BENCHMARK.options:
        each.resolve(arguments)
    record = Record("box", quick=True)
    plan = BENCHMARK.plan(arguments, record)
    (row,) = BENCHMARK.measure(plan, lambda *_: None, tmp_path)["rows"]
    assert re.search(r"tools/fetch_debs\.sh .*or install openmpi-bin", row["skipped"])
    assert row["skipped"] in record.notes
    assert (row["transport"], row["comm_ms"]) == (MPI, None)


def test_a_case_beyond_memory_is_a_row_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start_nothing(*_: object) -> None:
        raise AssertionError("processes are started although no case fits")

    monkeypatch.setattr(emulation, "processes", start_nothing)
    monkeypatch.setattr(emulation, "mpi_ranks", start_nothing)
    plan = BoxPlan(
        tests=("emulation",),
        transports=(BOX_SHM, BOX_TCP, MPI),
        networks=(NETWORKS["vgg16"],),
        workers=(32,),
        processes=(),
        rounds=1,
        steps=1,
        quick=False,
        available=GIB,
        openmpi=OpenMpi(tmp_path),
    )
    rows = emulation.run(plan, lambda *_: None, tmp_path)
    assert [row["comm_ms"] for row in rows] == [None, None, None]
    assert all("of memory" in row["skipped"] for row in rows)
    cells = [line for table in BENCHMARK.tables for line in table.cells({"rows": rows})]
    assert len(cells) == 3
    assert all("skipped: needs" in line[-1] for line in cells)
    assert [chart for draw in BENCHMARK.charts for chart in draw({"rows": rows})] == []


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_way_beyond_memory_leaves_its_transport_to_the_other_one(
    tmp_path: Path, mpi: OpenMpi
) -> None:
    network = NETWORKS["inception_v1"]
    plan = BoxPlan(
        tests=("emulation",),
        transports=(BOX_SHM, BOX_TCP, MPI),
        networks=(network,),
        workers=(8,),
        processes=(),
        rounds=2,
        steps=2,
        quick=True,
        available=0,
        openmpi=mpi,
    )
    size = plan.network_bytes(network)
    plan = replace(plan, available=20 * size)  # 8 workers: lease 18, copy 19, tcp 27, MPI 25 and 17
    rows = {row["transport"]: row for row in emulation.run(plan, lambda *_: None, tmp_path)}
    assert rows[BOX_SHM]["variants"].keys() == {"box-shm lease", "box-shm copy"}
    assert rows[MPI]["variants"].keys() == {"one-sided"}
    assert all(rows[key]["verified"] for key in (BOX_SHM, MPI))
    assert "of memory" in rows[BOX_TCP]["skipped"]


def test_the_fastest_of_those_measured_in_all_rounds_counts() -> None:
    ways = [way for way in emulation.WAYS if way.transport == MPI]
    turns = {way.key: emulation.Measured() for way in ways}
    # One-sided is dropped after the first round, although the others' rounds get slower than it.
    for number, took in enumerate([(1.0, 2.0), (5.0, 9.0), (5.0, 9.0)]):
        worth = [emulation.is_worth(way, turns, number) for way in ways]
        for way, milliseconds, measured in zip(ways, took, worth, strict=True):
            if measured:
                turns[way.key].milliseconds.append(milliseconds)
    rounds = {key: len(found.milliseconds) for key, found in turns.items()}
    assert rounds == {"preposted": 3, "one-sided": 1}
    assert emulation.fastest(list(turns), turns) == "preposted"


def test_a_ratio_is_the_median_of_the_rounds_and_a_chart_shows_that_one() -> None:
    # Each round is faster than the one before: the ratio of the medians would be 1.
    ours, limit = [1.0, 4.0, 6.0], [2.0, 4.0, 24.0]
    least = compared(ours, limit, 0.5)
    assert least == {
        "ratio": 0.5,
        "ratio_spread": [0.25, 1.0],
        "target": ">=0.5",
        "target_met": True,
    }
    assert compared(ours, limit, 0.4, most=True)["target_met"] is False
    aimless = compared(ours, limit, None)
    assert (aimless["target"], aimless["target_met"]) == (None, None)
    row = make_row("bandwidth", BOX_SHM, workers=2, bytes=GIB, gb_s=4.0, limit_gb_s=4.0, **least)
    (drawn,) = (chart for draw in BENCHMARK.charts for chart in draw({"rows": [row]}))
    assert "4 GB/s (0.50x)" in drawn and "1.00x" not in drawn


def test_a_rank_that_fails_is_reported_with_its_error(tmp_path: Path, mpi: OpenMpi) -> None:
    with (
        pytest.raises(PeerDead, match=r"MPI rank \d failed: KeyError: 'no such way'"),
        mpi_ranks(mpi, 2, tmp_path / "mpi.log") as ranks,
    ):
        ask(ranks, Call("no such way", "run"))


def test_ranks_take_one_turn_after_the_other(tmp_path: Path, mpi: OpenMpi) -> None:
    with mpi_ranks(mpi, 3, tmp_path / "mpi.log") as ranks:
        for make in (preposted, shared, preposted, one_sided):
            with opened(ranks, "turn", make, 64):
                pass


def test_a_push_is_exposed_only_where_it_outlasts_the_computation() -> None:
    pushes: list[float] = []

    def exposed(push_seconds: float, compute: float) -> list[float]:
        def push() -> None:
            time.sleep(push_seconds)
            pushes.append(push_seconds)

        return emulate(lambda: None, push, compute, steps=3)

    assert exposed(0.4, compute=0.02)[1] >= 0.1
    assert len(exposed(0.01, compute=0.05)) == 3
    assert pushes == [0.4] * 3 + [0.01] * 3


def test_a_failed_push_ends_the_emulation_with_its_error() -> None:
    def push() -> None:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        emulate(lambda: None, push, compute=0.0, steps=2)


@pytest.mark.parametrize("elements", [0, 1, 15, 16, 17, 1000, 4096])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_plain_loop_adds_every_element_once(elements: int, threads: int) -> None:
    total = np.arange(elements, dtype=np.float32)
    _native.add_in_place(total, np.full(elements, 0.5, np.float32), threads)
    assert np.array_equal(total, np.arange(elements, dtype=np.float32) + 0.5)


@pytest.mark.parametrize("text", ["1", "33", "", "two"])
def test_a_number_of_workers_outside_2_to_32_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        workers(text)
    assert workers("2,8,8,32") == (2, 8, 32)
