"""What fails in a long experiment is a row that says so, and the experiment goes on."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from plan_of import plan_of

from farwrite.errors import PeerDead
from farwrite_experiments import sizes
from farwrite_experiments.convergence import benchmark as convergence
from farwrite_experiments.convergence import run as convergence_run
from farwrite_experiments.scaling import benchmark as scaling
from farwrite_experiments.scaling import run as scaling_run
from farwrite_experiments.train import benchmark as train
from farwrite_experiments.train import run as train_run

GONE = "task ps ended early (killed by signal 9, Killed); command: x; it printed nothing"


def show_nothing(share: float, what: str = "") -> None:
    """Show no progress."""


def do_nothing(*_: object) -> None:
    """Start nothing, and import nothing."""


def errors(rows: list[dict[str, Any]], *keys: str) -> dict[Any, str | None]:
    return {tuple(row[key] for key in keys): row.get("error") for row in rows}


def test_a_group_of_train_that_fails_is_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(case: Any, *_: object) -> Any:
        if case.batch == 8:
            raise PeerDead(GONE)
        return {}, 0.0

    def rows(case: Any, ways: Any, *_: object) -> list[dict[str, Any]]:
        return [train_run.identity(case, way) for way in ways]

    for name, double in (("import_tensorflow", do_nothing), ("start", do_nothing)):
        monkeypatch.setattr(train_run, name, double)
    monkeypatch.setattr(train_run, "measure", measure)
    monkeypatch.setattr(train_run, "make_rows", rows)
    words = "--model vgg16 --batch 1,8,32 --transport grpc --transport farwrite --fabric shm"
    made = plan_of(train.BENCHMARK, "bench", "train", *words.split())
    *_, facts = train.measure(made, show_nothing, tmp_path)
    found = errors(facts["rows"], "batch", "transport")
    assert {batch for batch, _ in found} == {1, 8, 32}
    assert all((error is not None) == (batch == 8) for (batch, _), error in found.items())
    names = [name for name, _ in train.BENCHMARK.failures(facts)]
    assert "vgg16, 1+2, 8, farwrite, shm" in names
    assert not any(row["repeated"] for row in facts["rows"])


def test_a_point_of_scaling_that_fails_is_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(plan: Any, point: Any, *_: object) -> list[dict[str, Any]]:
        if point.machines == 2:
            raise PeerDead(GONE)
        return [scaling_run._identity(point, way) for way in plan.ways]

    monkeypatch.setattr(scaling_run, "import_tensorflow", do_nothing)
    monkeypatch.setattr(scaling_run, "_alone", lambda *_: 1.0)
    monkeypatch.setattr(scaling_run, "_measure", measure)
    words = "--model vgg16 --machines 1,2,4 --loopback"
    made = plan_of(scaling.BENCHMARK, "bench", "scaling", *words.split())
    costs: Any = None
    rows = [row for more in scaling_run.run(made, costs, show_nothing, tmp_path) for row in more]
    found = errors(rows, "workers", "transport")
    assert len(found) == 3 * len(made.ways)
    assert {key for key, error in found.items() if error} == {(2, "grpc"), (2, "farwrite")}
    assert ("vgg16, 2, loopback, grpc tcp", GONE) in scaling.BENCHMARK.failures({"rows": rows})


def test_a_network_of_sizes_that_fails_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def measure(cluster: object, case: Any) -> dict[str, Any]:
        if case.model == "lstm":
            raise PeerDead(GONE)
        return {"model": case.model, "sizes": [4]}

    monkeypatch.setattr(sizes, "import_tensorflow", do_nothing)
    monkeypatch.setattr(sizes, "start", lambda *_: started.append("cluster"))
    monkeypatch.setattr(sizes, "_measure", measure)
    words = "--model vgg16 --model lstm --model gru"
    made = plan_of(sizes.BENCHMARK, "bench", "sizes", *words.split())
    facts = sizes.measure(made, show_nothing, tmp_path)
    assert errors(facts["rows"], "model") == {("vgg16",): None, ("lstm",): GONE, ("gru",): None}
    assert len(started) == 2
    assert facts["overall"]["share_over_10KB"] == 0
    assert sizes.BENCHMARK.failures(facts) == [("lstm", GONE)]


def test_processes_of_sizes_that_fail_at_their_end_are_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise PeerDead(GONE)

    def start(way: object, layout: object, logs: object, stack: contextlib.ExitStack) -> None:
        stack.callback(fail)

    monkeypatch.setattr(sizes, "import_tensorflow", do_nothing)
    monkeypatch.setattr(sizes, "start", start)
    monkeypatch.setattr(sizes, "_measure", lambda _, case: {"model": case.model, "sizes": [4]})
    made = plan_of(sizes.BENCHMARK, "bench", "sizes", "--model", "gru")
    facts = sizes.measure(made, show_nothing, tmp_path)
    assert sizes.BENCHMARK.failures(facts) == [("end of the processes", GONE)]
    assert facts["overall"]["share_over_10KB"] == 0


def test_a_task_of_convergence_that_fails_is_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_it(plan: Any, job: Any, *_: object) -> Any:
        raise PeerDead(GONE)
        yield

    monkeypatch.setattr(convergence_run, "import_tensorflow", do_nothing)
    monkeypatch.setattr(convergence_run, "_train", train_it)
    made = plan_of(convergence.BENCHMARK, "bench", "convergence", "--task", "seq2seq", "--quick")
    *_, facts = convergence.measure(made, show_nothing, tmp_path)
    assert {row["error"] for row in facts["rows"]} == {GONE}
    assert {row["transport"] for row in facts["rows"]} == {"grpc", "farwrite"}
    ((_, heads, cells),) = convergence.BENCHMARK.filled_tables(facts)
    assert all(len(line) == len(heads) for line in cells)
    assert cells[0][-1] == "failed: task ps ended early (killed by signal 9, Killed)"
