"""What fails while a benchmark runs is a row that says so. The other rows are measured."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import failing_turns
import launcher
import pytest

from bench_command import parsed, planned, result
from farwrite.errors import PeerDead
from farwrite_bench import start
from farwrite_bench.box import benchmark as box
from farwrite_bench.box import emulation, publish
from farwrite_bench.box import plan as box_plan
from farwrite_bench.box.openmpi import OpenMpi, mpi_ranks
from farwrite_bench.box.plan import BOX_SHM, BOX_TCP, MPI
from farwrite_bench.calls import benchmark as calls
from farwrite_bench.cluster.group import Group, Take
from farwrite_bench.cluster.ways import Running
from farwrite_bench.collective import benchmark as collective
from farwrite_bench.failure import attempt, end_now, noting
from farwrite_bench.feed import benchmark as feed
from farwrite_bench.grpc import benchmark as grpc
from farwrite_bench.grpc import connect, qps
from farwrite_bench.grpc import run as grpc_run
from farwrite_bench.harness import command
from farwrite_bench.p2p import benchmark as p2p
from farwrite_bench.p2p import run as p2p_run
from farwrite_bench.report.files import read_file
from farwrite_bench.report.results_page import results_page
from farwrite_bench.start import Case, StartPlan

GONE = "bench grpc: the server ended early (exit status 3); command: x; it printed nothing"


def show_nothing(share: float, what: str = "") -> None:
    """Show no progress."""


@pytest.fixture
def ranks_without_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let rank 0 of the first turn of MPI end; another start of the ranks goes well."""
    program = tmp_path / "orterun"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {launcher.__file__} "$@"\n')
    program.chmod(0o755)
    ways = [
        replace(way, make=failing_turns.failing_once) if way.transport == MPI else way
        for way in emulation.WAYS
    ]
    monkeypatch.setattr(emulation, "WAYS", tuple(ways))
    monkeypatch.setattr(
        emulation, "mpi_ranks", functools.partial(mpi_ranks, module=failing_turns.__name__)
    )
    monkeypatch.setattr(box_plan, "find", lambda: OpenMpi(program))
    monkeypatch.setenv("FAILS_ONCE", str(tmp_path / "has failed"))
    folders = [str(Path(failing_turns.__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, folders)))


def test_a_rank_that_ends_costs_its_rows_and_no_others(
    tmp_path: Path, ranks_without_mpi: None, capsys: pytest.CaptureFixture[str]
) -> None:
    file, page = tmp_path / "box.json", tmp_path / "box.html"
    words = "--quick --test latency --test emulation --transport box-shm --transport mpi"
    arguments = parsed(
        box.BENCHMARK,
        *words.split(),
        *("--model", "inception_v1", "--model", "resnet50"),
        *("--json", str(file), "--report", str(page)),
    )
    assert command.run(box.BENCHMARK, arguments) == 1
    facts = result(file, "box")
    assert facts["finished"]
    found = [(row["test"], row["model"], row["transport"]) for row in facts["rows"]]
    assert found == [
        ("latency", None, BOX_SHM),
        ("emulation", "inception_v1", BOX_SHM),
        ("emulation", "inception_v1", MPI),
        ("emulation", "resnet50", BOX_SHM),
        ("emulation", "resnet50", MPI),
    ]
    failed = facts["rows"].pop(2)
    assert [row["error"] for row in facts["rows"]] == [None] * 4
    measured = [row["comm_ms"] if row["model"] else row["p50_us"] for row in facts["rows"]]
    assert None not in measured, "also behind the failure"
    assert (failed["comm_ms"], failed["ratio"], failed["skipped"]) == (None, None, None)
    said = "MPI rank 0 ended early (exit status 7)"
    assert failed["error"].startswith(f"{said}; command: {tmp_path}/orterun --allow-run-as-root")
    assert failed["error"].endswith("; it printed nothing")
    assert facts["rows"][1]["ratio"] is None, "there is nothing to compare with"
    printed = capsys.readouterr()
    (line,) = (line for line in printed.out.splitlines() if "failed: MPI" in line and " - " in line)
    assert line.split()[:5] == ["Inception-v1", "x", "2", "mpi", "-"]
    assert line.endswith(f"failed: {said}")
    name = "Asynchronous training, emulated: Inception-v1 x 2, mpi"
    assert f"\n{name} failed: {failed['error']}\n" in printed.out
    assert f"farwrite bench box: 1 of 5 rows failed: {name};" in printed.err
    assert "failed: MPI rank 0 ended early" in page.read_text()


def test_a_transport_of_the_box_that_fails_leaves_the_other_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [
        replace(way, make=failing_turns.failing_worker) if way.transport == BOX_TCP else way
        for way in emulation.WAYS
    ]
    monkeypatch.setattr(emulation, "WAYS", tuple(ways))
    monkeypatch.syspath_prepend(str(Path(failing_turns.__file__).parent))
    words = "--quick --test emulation --transport box-shm --transport box-tcp"
    made, _ = planned(box.BENCHMARK, *words.split(), "--model", "inception_v1")
    shm, tcp = emulation.run(made, show_nothing, tmp_path)
    assert (shm["transport"], shm["error"], shm["rounds"]) == (BOX_SHM, None, made.rounds)
    assert shm["verified"]
    assert "ended early (exit status 7)" in tcp["error"]


def test_a_rank_that_ends_before_its_first_message_is_a_failure(tmp_path: Path) -> None:
    program = tmp_path / "orterun"
    connect = "import sys; from multiprocessing.connection import Client; Client(sys.argv[1])"
    program.write_text(
        f'#!/bin/sh\nfor last; do :; done\nexec {sys.executable} -c "{connect}" "$last"\n'
    )
    program.chmod(0o755)
    with (
        pytest.raises(PeerDead, match="0 of 2 ranks of MPI started, and one ended at its start"),
        mpi_ranks(OpenMpi(program), 2, tmp_path / "log"),
    ):
        pass


def test_a_way_of_publishing_that_fails_leaves_the_others_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    @contextlib.contextmanager
    def processes(count: int, *_: object) -> Iterator[list[Any]]:
        started.append(count)
        yield [SimpleNamespace()] * count

    def turn(publisher: object, readers: object, way: str, size: int) -> tuple[float, float]:
        if way == publish.FILE:
            raise PeerDead(GONE)
        return 0.002, 0.001

    monkeypatch.setattr(publish, "processes", processes)
    monkeypatch.setattr(publish, "turn", turn)
    made, _ = planned(box.BENCHMARK, "--quick", "--rounds", "3", "--test", "publish")
    rows = {row["transport"]: row for row in publish.run(made, show_nothing, tmp_path)}
    assert rows.pop(publish.FILE)["error"] == GONE
    assert [row["visible_ms"] for row in rows.values()] == [2.0] * 3
    assert sorted(started) == [1, 1, 8, 8], "anew behind the failure"


def grpc_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> list[Any]:
    """Measure without programs; every turn over unix sockets fails."""

    def take(plan: object, case: object, transport: Any, logs: Path) -> dict[str, Any]:
        if transport.key == "uds":
            raise PeerDead(GONE)
        figures: dict[str, Any] = dict.fromkeys(grpc_run.case_row.__globals__["FIGURES"], 2.0)
        return {**figures, "peak_bytes": {"server": 1}}

    monkeypatch.setattr(grpc_run, "take_turn", take)
    monkeypatch.setattr(grpc_run, "_settings", lambda *_: {})
    made = grpc.of.make_plan(parsed(grpc.BENCHMARK, *words))
    rows: list[Any] = grpc_run.run(made, show_nothing, tmp_path)["rows"]
    return rows


def test_a_grpc_program_that_fails_costs_the_row_of_its_transport(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("latency", "bandwidth", "--scheme", "uniform", "--transport", "tcp")
    rows = grpc_rows(monkeypatch, tmp_path, *words, "--transport", "uds", "--quick")
    errors = {(row["benchmark"], row["mode"], row["transport"]): row["error"] for row in rows}
    assert {key for key, error in errors.items() if error} == {
        ("latency", "non-serialized", "uds"),
        ("latency", "serialized", "uds"),
        ("bandwidth", "non-serialized", "uds"),
    }
    assert all(row["p50_us"] == (None if row["error"] else 2.0) for row in rows)
    names = [name for name, _ in grpc.BENCHMARK.failures({"rows": rows})]
    assert names[-1] == "Bandwidth: uniform, 3030040 B, non-serialized, uds"
    cells = grpc.BENCHMARK.filled_tables({"rows": rows})[0][2]
    assert cells[1][3:] == ["-"] * 7 + ["failed: the server ended early (exit status 3)"]


def test_figures_of_farwrite_in_qps_are_checked_at_the_end_of_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    class Pair:
        def __init__(self, key: str) -> None:
            self._key, self._runs = key, 0

        def run(self, *_: object) -> str:
            self._runs += 1
            if self._key in ("tcp", "farwrite-tcp") and self._runs == 2:
                raise PeerDead(GONE)
            return self._key

        def quit(self) -> None:
            if self._key == "farwrite-shm":
                raise PeerDead("not upgraded")

    @contextlib.contextmanager
    def workers(transport: Any, *_: object) -> Iterator[Pair]:
        try:
            yield Pair(transport.key)
        except PeerDead:
            ended.append(transport.key)
            raise

    monkeypatch.setattr(qps, "_workers", workers)
    monkeypatch.setattr(qps, "figures", lambda _: {"rpc_s": 5.0, "p50_us": 1.0})
    keys = ("tcp", "farwrite-shm", "farwrite-tcp")
    chosen = [word for key in keys for word in ("--transport", key)]
    made = grpc.of.make_plan(parsed(grpc.BENCHMARK, "qps", "--quick", *chosen))
    rows = qps.rows(made, lambda _: None, tmp_path)
    found = {
        key: [(row["rpc_s"], row["error"]) for row in rows if row["transport"] == key]
        for key in keys
    }
    assert found["tcp"][0] == (5.0, None)
    assert set(found["tcp"][1:]) == {(None, GONE)}, "later scenarios"
    assert set(found["farwrite-tcp"]) == {(None, GONE)}, "earlier ones too: no counters"
    assert set(found["farwrite-shm"]) == {(None, "not upgraded")}
    assert ended == ["tcp", "farwrite-tcp"], "they do not run beside measured ones"


def test_workers_of_an_all_reduce_that_fail_end_before_the_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    @contextlib.contextmanager
    def workers(transport: Any, *_: object) -> Iterator[str]:
        try:
            yield transport.key
        finally:
            happened.append(f"{transport.key} ends")

    def turns(key: str, _: Take) -> Any:
        happened.append(key)
        if key == "farwrite":
            raise PeerDead(GONE)
        return []

    monkeypatch.setattr(collective, "_workers", workers)
    monkeypatch.setattr(collective, "_turns", turns)
    monkeypatch.setattr(collective, "_rows", lambda _, turns: [{"transport": key} for key in turns])
    plan = collective.CollectivePlan(elements=1, rounds=2, steps=1, fabric=None)
    rows = collective.measure(plan, show_nothing, tmp_path)["rows"]
    assert rows == [{"transport": "grpc"}, {"transport": "farwrite", "error": GONE}]
    assert happened == ["grpc", "farwrite", "farwrite ends", "grpc", "grpc ends"]


def test_a_connection_that_fails_costs_the_rows_of_its_transport(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def pair(plan: object, transport: Any, *_: object) -> Iterator[Any]:
        if transport.key == "uds":
            raise PeerDead(GONE)
        worker = SimpleNamespace(
            ask=lambda what, count=0, *_: {"microseconds": [1.0] * count}, pid=os.getpid()
        )
        yield SimpleNamespace(address="here", pid=os.getpid()), worker

    monkeypatch.setattr(connect, "_pair", pair)
    words = ("connect", "--quick", "--transport", "tcp", "--transport", "uds")
    rows = connect.rows(grpc.of.make_plan(parsed(grpc.BENCHMARK, *words)), lambda _: None, tmp_path)
    assert [row["error"] for row in rows] == [None, GONE] * 3
    assert len(grpc.BENCHMARK.failures({"rows": rows})) == 3


def test_a_case_of_p2p_that_fails_is_a_row_and_the_others_have_new_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    @contextlib.contextmanager
    def pair(setup: Any, log: Path) -> Iterator[str]:
        started.append(setup.op)
        yield setup.op
        if setup.op == "read":
            raise PeerDead("no end")

    def measured(pair: str, case: Any, *_: object) -> Any:
        if (pair, case.size) == ("write", 4096):
            raise PeerDead(GONE)
        return case

    def first_use(pair: str, plan: object) -> dict[str, Any]:
        if pair == "alias":
            raise PeerDead("no start")
        return {}

    monkeypatch.setattr(p2p_run, "Pair", pair)
    monkeypatch.setattr(p2p_run, "_first_use", first_use)
    monkeypatch.setattr(p2p_run, "_measure", measured)
    monkeypatch.setattr(p2p_run, "make_row", lambda case, _: {"op": case.op, "size": case.size})
    words = ("--op", "write,read,alias", "--sizes", "8,4K,64K", "--pool", "16M")
    made, _ = planned(p2p.BENCHMARK, *words)
    facts = p2p_run.run(made, show_nothing, tmp_path)
    assert started == ["write", "write", "read", "alias"]
    at_end = facts["rows"].pop(6)
    assert (at_end["op"], at_end["error"]) == ("read, end of the processes", "no end")
    assert p2p.BENCHMARK.failures({"rows": [at_end]}) == [(at_end["op"], "no end")]
    assert [(row["op"], row["size"]) for row in facts["rows"]] == [
        (op, size) for op in ("write", "read", "alias") for size in (8, 4096, 65536)
    ]
    errors = [row.get("error") for row in facts["rows"]]
    assert errors == [None, GONE, None, *[None] * 3, *["no start"] * 3]
    assert [each["op"] for each in facts["first_use"]] == ["write", "read"]
    names = [name for name, _ in p2p.BENCHMARK.failures(facts)]
    assert names == ["write, 4 KiB", "alias, 8 B", "alias, 4 KiB", "alias, 64 KiB"]


def test_a_program_that_does_not_start_is_a_row(tmp_path: Path) -> None:
    cases = (
        Case("true", ("true",), python=False),
        Case("false", ("false",), python=False),
        Case("beside", ("true",), "false", python=False),
    )
    facts = start.measure(StartPlan(1, cases), show_nothing, tmp_path)
    rows = {row["start"]: row for row in facts["rows"]}
    assert rows["true"]["seconds"] > 0
    assert "false ended with status 1" in rows["false"]["error"]
    assert rows["beside"]["error"] == "the program beside it, false, failed"
    assert len(start.BENCHMARK.filled_tables(facts)[0][2]) == 3


class Client:
    """A client of TensorFlow's benchmarks whose process may end."""

    def __init__(self, key: str) -> None:
        self._key, self._size, self.asked = key, 0, 0

    def open(self, size: int) -> None:
        self._size = size

    def close(self) -> None:
        """Nothing is open."""

    def ask(self, order: Any) -> object:
        self.asked += 1
        if self._key == "grpc" and self._size == 64:
            raise PeerDead(GONE)
        return [0.001] * order.count if isinstance(order, Take) else order(self)


def test_a_way_of_tensorflow_whose_process_ends_has_no_further_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = {"grpc": Client("grpc"), "farwrite": Client("farwrite")}
    ended = []

    @contextlib.contextmanager
    def started(*_: object) -> Iterator[Running]:
        with contextlib.ExitStack() as stack:
            running = Running(stack)
            for key, client in clients.items():
                running.groups[key] = Group(client)  # type: ignore[arg-type]
                running._own[key] = stack.enter_context(contextlib.ExitStack())
                running._own[key].callback(ended.append, key)
            yield running

    def figures(plan: object, size: int, turns: Any, load: float) -> list[dict[str, Any]]:
        return [{"operation": "feed", "size": size, "way": way} for way in turns["feed"]]

    monkeypatch.setattr(feed.ways, "started", started)
    monkeypatch.setattr(feed, "make_rows", figures)
    monkeypatch.setattr(Group, "turn", lambda group, order: group.seconds(order))
    plan = argparse.Namespace(
        sizes=(16, 64, 256), way=[*clients], rounds=2, seconds=1.0, fabric=None, target="grpc"
    )
    rows = feed.measure(plan, show_nothing, tmp_path)["rows"]
    good = [(row["size"], row["way"]) for row in rows if row.get("error") is None]
    assert good == [(16, "grpc"), (16, "farwrite"), (64, "farwrite"), (256, "farwrite")]
    failed = {(row["operation"], row["size"], row["way"]) for row in rows if "error" in row}
    assert failed == {(op, size, "grpc") for op in ("feed", "fetch") for size in (64, 256)}
    assert ended == ["grpc", "farwrite"], "the failed way ends at once"
    names = [name for name, _ in feed.BENCHMARK.failures({"rows": rows})]
    assert names[0] == "feed, 64 B, grpc, grpc://"


def interrupted_end() -> None:
    """End, as processes do whose end is interrupted."""
    try:
        raise KeyboardInterrupt
    finally:
        raise PeerDead("what the interrupt ended")


def test_threads_of_calls_that_fail_are_a_row_beside_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def thread_rows(*_: object) -> Iterator[dict[str, Any]]:
        yield {"bytes": 8}
        raise PeerDead(GONE)

    monkeypatch.setattr(calls, "_thread_rows", thread_rows)
    *_, facts = calls.measure(calls.CallsPlan(1, None), show_nothing, tmp_path)
    assert facts["threads"] == [{"bytes": 8}]
    assert len(facts["rows"]) == len(calls.CALLS) + 1
    assert calls.BENCHMARK.failures({"rows": facts["rows"]}) == [("two threads", GONE)]


def test_an_interrupt_is_no_failure_of_a_test() -> None:
    failed: dict[str, str] = {}
    with pytest.raises(KeyboardInterrupt), noting(failed, "a"):
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), noting(failed, "a"):
        try:
            raise KeyboardInterrupt
        finally:
            raise PeerDead("what the interrupt ended")
    stack = contextlib.ExitStack()
    stack.callback(interrupted_end)
    with pytest.raises(KeyboardInterrupt):
        end_now(stack)
    with noting(failed, "a", "b"):
        raise OSError
    with noting(failed, "b"):
        raise PeerDead(GONE)
    assert failed == {"a": "OSError", "b": "OSError"}, "the first reason is the cause"
    assert attempt(dict, [("gb_s", 1.0)]) == {"gb_s": 1.0}
    assert list(attempt(Path("/nowhere").read_text)) == ["error"]


def test_the_page_names_the_files_of_interrupted_runs(tmp_path: Path) -> None:
    file = tmp_path / "start.json"
    cases = (Case("false", ("false",), python=False), Case("true", ("true",), python=False))
    benchmark = replace(start.BENCHMARK, plan=lambda *_: StartPlan(1, cases))
    assert command.run(benchmark, parsed(benchmark, "--json", str(file))) == 1
    facts = json.loads(file.read_text())
    assert [row["error"] is None for row in facts["rows"]] == [False, True]
    assert "Interrupted" not in results_page([read_file(file)])
    file.write_text(json.dumps({**facts, "finished": False}))
    page = results_page([read_file(file)])
    assert "Interrupted runs, whose files lack rows: all." in page
    assert "failed: false ended with status 1" in page
