"""farwrite bench convergence: small runs, its rows and its checks. No test asserts a time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_of import plan_of

from bench_command import bench, result
from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite_experiments.convergence.benchmark import BENCHMARK, interrupted
from farwrite_experiments.convergence.data.choose import (
    CIFAR10,
    IMAGES,
    LINES,
    SENTENCES,
    SEQ2SEQ,
    Data,
)
from farwrite_experiments.convergence.plan import FILES, SHORT, ConvergencePlan, Job
from farwrite_experiments.convergence.rows import make_rows, spread
from farwrite_experiments.convergence.run import emulated_case
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.networks.gpu_class import RECURRENT_STEP_MS, equivalent, milliseconds
from farwrite_experiments.networks.network import VGG16
from farwrite_experiments.train.plan import STOCK, ways

OURS = ways(["farwrite"], ["shm"])[-1]
BOTH = (STOCK, OURS)
TEXT = Data("made up", True, LINES, ("a", "b"), ("c", "d"), 100, ("e", "f"))


def converge(tmp_path: Path, *words: str, seconds: float = 240) -> dict[str, Any]:
    """Run the command, and return its facts."""
    figures = tmp_path / "new" / "convergence.json"
    ended = bench("convergence", "--quick", *words, "--json", str(figures), seconds=seconds)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return result(figures, "convergence")


@pytest.mark.slow
@pytest.mark.timeout(250)  # half a minute alone on two processors
def test_a_task_takes_the_same_steps_over_grpc_and_farwrite(tmp_path: Path) -> None:
    facts = converge(tmp_path, "--task", "sentences", seconds=240)
    assert facts["finished"]
    assert [(row["compute"], row["transport"], row["fabric"]) for row in facts["rows"]] == [
        *(("real", "grpc", "tcp"), ("real", "farwrite", "shm")),
        *(("emulated", "grpc", "tcp"), ("emulated", "farwrite", "shm")),
    ]
    stock, ours = facts["rows"][:2]
    # Six steps: the losses were the same to the bit, or the command would have failed.
    assert [point["step"] for point in ours["curve"]] == [3, 6]
    losses = [point["loss"] for point in ours["curve"]]
    assert losses == [point["loss"] for point in stock["curve"]]
    assert losses[-1] < losses[0]
    assert (ours["reached"], ours["seconds_to_quality"]) == (0, None)
    assert ours["data"] == {"name": "generated, synthetic", "synthetic": True}
    assert ours["copies_per_step"] == ours["requests_per_step"] == 0
    assert ours["of_grpc"]["median"] > 0


@pytest.mark.slow
@pytest.mark.timeout(380)
@pytest.mark.parametrize("task", TASKS)
def test_the_steps_are_the_same_on_every_transport(tmp_path: Path, task: str) -> None:
    transports = ("grpc", "rpc-over-fabric", "staged", "farwrite")
    chosen = [word for each in transports for word in ("--transport", each)]
    facts = converge(
        *(tmp_path, "--task", task, *chosen, "--fabric", "shm", "--fabric", "tcp"),
        *("--servers", "2", "--runs", "2"),
        seconds=370,
    )
    real = [row for row in facts["rows"] if row["compute"] == "real"]
    assert {(row["transport"], row["fabric"]) for row in real} == {
        ("grpc", "tcp"),
        *((key, fabric) for key in transports[1:] for fabric in ("shm", "tcp")),
    }
    curves = [
        [[(point["step"], point["loss"], point["quality"]) for point in each] for each in found]
        for found in (row["curves"] for row in real)
    ]
    assert all(each == curves[0] for each in curves)
    # Runs have other first values and another order.
    assert curves[0][0] != curves[0][1]


def _run(number: int, seconds: tuple[float, float], *, reached: bool = True) -> dict[str, Any]:
    """Make a run of twenty steps over both ways."""
    counts = dict.fromkeys(
        (
            *("copies_per_step", "registrations_per_step", "requests_per_step"),
            *("tensor_bytes_per_step", "socket_bytes_per_step", "cpu_s_per_step"),
        ),
        0.0,
    )
    return {
        **{"task": SEQ2SEQ, "run": number, "seed": number, "target": 20.0, "reached": reached},
        **{"steps": 20, "quality": 19.0, "longest": [10.0, 12.0], "load": 0.1},
        "curve": [
            {"step": 10, "loss": 4.0, "quality": 30.0},
            {"step": 20, "loss": 3.0, "quality": 19.0},
        ],
        "ways": [
            {
                **{"transport": way.transport.key, "fabric": fabric},
                **{"seconds": [took / 2, took], "step_ms": 50 * took, **counts},
            }
            for way, fabric, took in zip(BOTH, ("tcp", "shm"), seconds, strict=True)
        ],
    }


def _steps(transport: str, fabric: str, rounds: list[float]) -> dict[str, Any]:
    counted = _run(1, (1.0, 1.0))["ways"][0]
    return {
        **{name: value for name, value in counted.items() if name.endswith("_per_step")},
        **{"model": SEQ2SEQ, "transport": transport, "fabric": fabric, "compute_ms": 9.0},
        **{"step_ms": sorted(rounds)[1], "step_ms_rounds": rounds, "load": 0.1},
        "group": ["local", "grpc", "farwrite shm"],
    }


JOB = Job(SEQ2SEQ, TEXT, 20.0)
STEPS = [
    _steps("local", "none", [9.0, 9.0, 9.0]),
    _steps("grpc", "tcp", [40.0, 20.0, 60.0]),
    _steps("farwrite", "shm", [20.0, 10.0, 15.0]),
]


def test_time_to_quality_is_the_time_of_the_steps_of_each_run() -> None:
    runs = [_run(1, (4.0, 2.0)), _run(2, (8.0, 2.0)), _run(3, (4.0, 3.0))]
    stock, ours = make_rows(JOB, BOTH, runs, [])
    assert stock["seconds_to_quality"] == {
        **{"mean": 5.333, "low": 4.0, "high": 8.0},
        "runs": [4.0, 8.0, 4.0],
    }
    assert ours["seconds_to_quality"]["mean"] == 2.333
    assert ours["steps_to_quality"]["runs"] == [20, 20, 20]
    assert stock["of_grpc"] is None
    # Run by run, because they were in turns.
    assert ours["of_grpc"] == {"median": 0.5, "low": 0.25, "high": 0.75}
    assert ours["curve"][1] == {"step": 20, "loss": 3.0, "quality": 19.0, "seconds": 2.0}
    assert ours["data"] == {"name": "made up", "synthetic": True}


def test_emulated_time_is_the_real_steps_times_the_emulated_step() -> None:
    runs = [_run(1, (4.0, 2.0))]
    *_, stock, ours = make_rows(JOB, BOTH, runs, STEPS)
    assert (stock["compute"], ours["compute"]) == ("emulated", "emulated")
    assert stock["seconds_to_quality"]["mean"] == pytest.approx(20 * 0.040)
    assert ours["seconds_to_quality"]["mean"] == pytest.approx(20 * 0.015)
    assert ours["of_grpc"] == {"median": 0.5, "low": 0.25, "high": 0.5}
    assert [point["seconds"] for point in ours["curve"]] == pytest.approx([0.15, 0.3])


def test_a_quality_that_one_run_does_not_reach_has_no_time() -> None:
    runs = [_run(1, (4.0, 2.0)), _run(2, (4.0, 2.0), reached=False)]
    for row in make_rows(JOB, BOTH, runs, STEPS):
        assert (row["reached"], row["steps_to_quality"], row["seconds_to_quality"]) == (
            1,
            None,
            None,
        )
    ours = make_rows(JOB, BOTH, runs, STEPS)[1]
    assert ours["of_grpc"]["median"] == 0.5, "the steps are still the same"
    assert spread([1.0, None]) is None and spread([]) is None


@pytest.mark.parametrize("task", TASKS)
def test_the_emulated_steps_have_the_variables_of_the_real_ones(task: str) -> None:
    model = TASKS[task]
    longest = [] if task == IMAGES else [10.0, 12.0]
    run = {**_run(1, (1.0, 1.0)), "task": task, "longest": longest}
    case = emulated_case(Job(task, TEXT, 1.0), [run])
    assert {each for each in model.variables} <= set(case.network.variables)
    rows = [each for each in case.network.variables if each not in set(model.variables)]
    # As many rows as the words of a batch.
    assert [each.shape for each in rows] == [(round(case.batch * each), 256) for each in longest]
    assert 3e6 < case.network.bytes < 20e6
    assert case.compute_ms is not None
    if task == IMAGES:
        assert case.compute_ms == pytest.approx(32 * milliseconds(18_500_000), rel=0.02)
    else:
        assert case.compute_ms == pytest.approx(22 * RECURRENT_STEP_MS, rel=0.05)


def test_the_time_of_an_accelerator_is_the_papers() -> None:
    assert pytest.approx(33.33 / 80) == RECURRENT_STEP_MS
    vgg16 = sum(layer.operations for layer in VGG16.layers)
    assert milliseconds(vgg16) == pytest.approx(30.92)
    assert equivalent(30.92) == vgg16


def test_a_quality_is_reached_from_its_own_side() -> None:
    assert TASKS[IMAGES].reached(0.96, 0.95) and not TASKS[IMAGES].reached(0.94, 0.95)
    for task in (SEQ2SEQ, SENTENCES):
        assert TASKS[task].reached(1.0, 2.0) and not TASKS[task].reached(3.0, 2.0)
    assert TASKS[IMAGES].targets[CIFAR10] < TASKS[IMAGES].target


def test_the_default_run_takes_at_most_ten_minutes() -> None:
    jobs = tuple(Job(task, TEXT, 1.0) for task in TASKS)
    whole = ConvergencePlan(jobs, BOTH, SHORT).expected_seconds()
    assert whole is not None and 60 < whole <= 600
    runs = [{"task": jobs[0].task}] * 2
    left = ConvergencePlan(jobs, BOTH, SHORT, runs=runs, steps=[{"model": jobs[0].task}])
    assert (left.expected_seconds() or 0) < whole
    of_files = replace(FILES, share=None)
    assert ConvergencePlan(jobs, BOTH, of_files).expected_seconds() is None


SETTINGS = {"runs": 3}
MACHINE = {"cpus": 2}


def _facts(**other: Any) -> dict[str, Any]:
    known = {"settings": SETTINGS, "machine": MACHINE, "notes": [], "finished": False}
    return {**known, "training": [_run(1, (1.0, 1.0))], "emulated_steps": [], **other}


def test_an_interrupted_run_continues_and_a_finished_one_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "convergence.json"
    assert not interrupted(None, SETTINGS, MACHINE)
    assert not interrupted(file, SETTINGS, MACHINE)
    file.write_text(json.dumps(_facts()))
    found = interrupted(file, SETTINGS, MACHINE)
    assert [run["run"] for run in found["training"]] == [1]
    file.write_text(json.dumps(_facts(finished=True)))
    assert not interrupted(file, {"runs": 4}, MACHINE)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("{", "not a whole result"),
        ("{}", "not a whole result"),
        (json.dumps(_facts(settings={"runs": 4})), "another setting"),
        (json.dumps(_facts(machine={"cpus": 4})), "another machine or build"),
    ],
    ids=["cut", "empty", "settings", "machine"],
)
def test_the_file_of_another_interrupted_run_is_kept(
    tmp_path: Path, content: str, what: str
) -> None:
    file = tmp_path / "convergence.json"
    file.write_text(content)
    with pytest.raises(
        FailedPrecondition, match=f"(?s)bench convergence: .*{what}.*name another file in --json"
    ):
        interrupted(file, SETTINGS, MACHINE)
    assert file.read_text() == content


def test_a_target_needs_one_task() -> None:
    with pytest.raises(InvalidArgument, match="--target is the quality of one task; add --task"):
        plan_of(BENCHMARK, "bench", "convergence", "--target", "2")


def test_every_worker_needs_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "translation"
    folder.mkdir()
    for name in ("train.source", "train.target", "test.source", "test.target"):
        (folder / name).write_text("one sentence\n")
    words = ["bench", "convergence", "--task", "seq2seq", "--data", str(tmp_path)]
    with pytest.raises(InvalidArgument, match=r"fewer records than .* \(1 and 2\); give more data"):
        plan_of(BENCHMARK, *words)


def test_a_folder_without_data_ends_the_command_before_it_trains(tmp_path: Path) -> None:
    ended = bench("convergence", "--data", str(tmp_path))
    assert ended.returncode == 1, ended.stderr
    assert "has neither the folder cifar-10-batches-bin nor mnist" in ended.stderr
