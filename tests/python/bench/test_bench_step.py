"""farwrite bench step: small runs end to end, and its rows. Nothing here asserts a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

from bench_command import bench, result
from farwrite_bench.cluster.busy import busy_cores
from farwrite_bench.cluster.group import Turn, in_turn
from farwrite_bench.cluster.readings import Readings
from farwrite_bench.step.benchmark import (
    KIND_SECONDS,
    ROUNDS,
    WAYS,
    expected_seconds,
    make_rows,
)
from farwrite_bench.step.programs import KINDS


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_program_has_a_row_for_each_way(tmp_path: Path, kind: str) -> None:
    figures = tmp_path / "new" / "step.json"
    ended = bench(
        *("step", "--quick", "--kind", kind, "--busy", "1", "--json", str(figures)), seconds=220
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts = result(figures, "step")
    assert [(row["kind"], row["way"]) for row in facts["rows"]] == [(kind, way) for way in WAYS]
    for row in facts["rows"]:
        assert min(row["step_ms"], row["mean_ms"], row["cpu_ms"], row["steps"]) > 0
        assert row["busy"] == facts["settings"]["busy"] == 1
        assert (row["control"] is None) == (row["way"] != "control on")
        assert (row["way"] == "local") == (row["fabric"] == "none")
    rows = {row["way"]: row for row in facts["rows"]}
    assert rows["grpc"]["of_grpc"] == {"median": 1, "low": 1, "high": 1}
    assert rows["control on"]["fabric"] == "shm"
    if kind == "session":
        # The last step's cleanup may be counted after the last reading.
        assert rows["control on"]["control"]["farwrite"] == pytest.approx(2, rel=0.02)
        assert rows["control on"]["control"]["grpc"] == 0
        assert rows["control on"]["socket_bytes"] < 100
    assert "cores kept busy: 1" in ended.stdout


def test_one_kind_and_way_can_be_measured_alone(tmp_path: Path) -> None:
    figures = tmp_path / "step.json"
    ended = bench(
        *("step", "--kind", "session", "--way", "grpc", "--rounds", "1", "--json", str(figures))
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (row,) = result(figures, "step")["rows"]
    assert (row["kind"], row["way"], row["of_local"], row["rounds"]) == (
        *("session", "grpc"),
        *(None, 1),
    )


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_busy_processes_compute_on_their_cores_and_end_with_the_block(tmp_path: Path) -> None:
    before = _children(os.getpid())
    with busy_cores(1, tmp_path):
        (busy,) = _children(os.getpid()) - before
        assert os.sched_getaffinity(busy) == {min(os.sched_getaffinity(0))}
        seconds = _processor_seconds(busy)
        give_up = time.monotonic() + 60
        while _processor_seconds(busy) < seconds + 0.05:
            assert time.monotonic() < give_up, "it does not compute"
            time.sleep(0.05)
    assert _children(os.getpid()) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_busy_processes_end_with_an_interrupted_command(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from farwrite_bench.cluster.busy import busy_cores\n"
        "with busy_cores(2, pathlib.Path(sys.argv[1])):\n"
        "    print('busy', flush=True)\n"
        "    while True:  # a signal that comes just before a sleep is noticed after it\n"
        "        time.sleep(0.05)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == "busy\n"
        busy = _children(command.pid)  # and the process that multiprocessing adds to them
        assert len(busy) == min(2, len(os.sched_getaffinity(0))) + 1
        command.send_signal(number)
    give_up = time.monotonic() + 20
    while any(Path(f"/proc/{each}").exists() for each in busy):
        assert time.monotonic() < give_up, f"{busy} still run"
        time.sleep(0.05)


def _children(process: int) -> set[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return {int(child) for child in listed.split()}


def turn(seconds: float, cpu: float = 0.0, counters: dict[str, int] | None = None) -> Turn:
    """A turn of four steps."""

    def readings(cpu: float, counters: dict[str, int] | None) -> list[Readings]:
        return [Readings("ps:0", 0, 0, cpu, 0, 0, counters, ("shm",) if counters else ())]

    none = None if counters is None else dict.fromkeys(counters, 0)
    return Turn([seconds] * 4, readings(0.0, none), readings(cpu, counters))


def test_ratios_are_taken_within_a_round() -> None:
    counted = {"control_calls": 8, "grpc_control_calls": 0}
    rows = make_rows(
        "session",
        0,
        {
            "grpc": [turn(0.002), turn(0.010), turn(0.004)],
            "control on": [turn(0.001, 0.004, counted), turn(0.005), turn(0.001, 0.004)],
            "local": [turn(0.001)] * 3,
        },
        load=0.1,
    )
    stock, ours, local = rows
    assert stock["step_ms"] == 4 and stock["control"] is None and stock["fabric"] == "tcp"
    assert ours["step_ms_rounds"] == [1, 5, 1]
    assert ours["mean_ms"] == pytest.approx(7 / 3, abs=1e-3)
    assert ours["of_grpc"] == {"median": 0.5, "low": 0.25, "high": 0.5}
    assert ours["of_local"] == {"median": 1, "low": 1, "high": 5}
    assert ours["cpu_ms"] == pytest.approx(8 / 12, abs=1e-3)
    assert ours["control"] == {"farwrite": round(8 / 12, 3), "grpc": 0}
    assert local["fabric"] == "none"


def test_each_round_begins_with_the_next_way() -> None:
    assert list(in_turn(["a", "b"], 3)) == [
        *((0, "a"), (0, "b")),
        *((1, "b"), (1, "a")),
        *((2, "a"), (2, "b")),
    ]


def test_the_default_run_ends_within_ten_minutes() -> None:
    plan = Namespace(kind=KINDS, way=WAYS, rounds=ROUNDS, seconds=KIND_SECONDS)
    assert expected_seconds(plan) < 600


@pytest.mark.parametrize(
    "option", [["--busy", "1000"], ["--busy", "-1"], ["--kind", "x"], ["--rounds", "0"]]
)
def test_bad_options_are_refused_with_the_reason(option: list[str]) -> None:
    ended = bench("step", *option)
    assert ended.returncode == 2
    assert option[0] in ended.stderr
