"""Tasks of a cluster: how one that fails, and what is missing, is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

import farwrite as fw
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.transport import Transport, require


def test_a_task_that_fails_is_reported_with_what_it_said(tmp_path: Path) -> None:
    nonsense = Transport("nonsense", "nonsense", "grpc")
    seat = Seat({"ps": free_addresses(1)}, "ps", 7, nonsense, Threads())
    with Task("ps:7", "farwrite_bench.cluster.server", {}, tmp_path / "ps.log") as task:
        task.send(seat)
        with pytest.raises(fw.PeerDead, match=r"ps:7 failed: (?s:.*)ps\.log"):
            task.receive()


def test_a_task_that_ends_is_reported(tmp_path: Path) -> None:
    with (
        Task("gone", "asked_program", {}, tmp_path / "gone.log") as task,
        pytest.raises(
            fw.PeerDead,
            match=r"gone ended early \(exit status 0\); command: asked_program.*\n +begun",
        ),
    ):
        task.ask("end")


def test_a_task_that_is_killed_is_reported_with_the_signal(tmp_path: Path) -> None:
    with (
        Task("gone", "asked_program", {}, tmp_path / "gone.log") as task,
        pytest.raises(fw.PeerDead, match=r"gone ended early \(killed by signal 9, Killed\)"),
    ):
        task.ask("be killed")


def test_what_is_missing_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(fw.FailedPrecondition, match=r"pip install .*tensorflow.* scikit-learn"):
        require("a benchmark", "tensorflow", "sklearn")
