"""Small end-to-end runs of ``farwrite demo training``. No test asserts a time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import farwrite as fw
from farwrite.sockets import socket_bytes
from farwrite_bench.cluster.process import Task, free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.transport import Transport, require
from farwrite_bench.demo.training.digits import Digits, batches, load
from farwrite_bench.demo.training.network import fingerprint, initial_weights, judge
from farwrite_bench.demo.training.plan import BATCH, LARGE, SMALL
from farwrite_bench.demo.training.results import percentile, speedups
from processes import group_lives
from self_contained import check_page

TRAINING = [sys.executable, "-m", "farwrite", "demo", "training"]
RUN_KEYS = {
    "model",
    "parameters",
    "transport",
    "steps",
    "step_ms",
    "final_loss",
    "test_accuracy",
    "socket_bytes_per_step",
    "tensor_bytes_per_step",
    "copies_per_step",
    "grpc_tensor_calls",
}


def train(folder: Path, *options: str) -> tuple[dict, str]:  # type: ignore[type-arg]
    ended = subprocess.run(
        [*TRAINING, "--model", "small", "--output", str(folder), *options],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "tensorflow/" not in ended.stdout + ended.stderr  # these are in the logs
    return json.loads((folder / "results.json").read_text()), ended.stdout


def test_training_over_stock_grpc_fills_results_and_report(tmp_path: Path) -> None:
    facts, printed = train(tmp_path, "--transport", "grpc", "--steps", "20")
    (run,) = facts["runs"]
    assert run.keys() >= RUN_KEYS
    assert (run["model"], run["transport"], run["steps"]) == ("64-128-10", "grpc", 20)
    assert run["parameters"] == SMALL.parameters == 9610
    assert len(run["all_step_ms"]) == 20
    assert 0 < run["step_ms"]["median"] <= run["step_ms"]["p90"]
    assert run["tensor_bytes_per_step"] == 2 * 4 * 9610
    # Every parameter and every gradient went through a socket, once.
    assert 1 < run["socket_bytes_per_step"] / run["tensor_bytes_per_step"] < 2
    assert run["copies_per_step"] is None
    assert run["grpc_tensor_calls"] is None
    assert facts["speedup"] == {}
    assert "64-128-10" in printed

    check_page((tmp_path / "report.html").read_text(), "svg", "table")


@pytest.mark.slow
def test_farwrite_and_grpc_end_with_the_same_weights(tmp_path: Path) -> None:
    facts, printed = train(tmp_path, "--synchronous", "--steps", "15")
    assert [run["transport"] for run in facts["runs"]] == ["grpc", "farwrite"]
    (weights,) = facts["synchronous_weights"]
    assert weights["identical"] is True
    assert len(set(weights["sha256"].values())) == 1
    assert "the same bit for bit" in printed
    ours = facts["runs"][1]
    assert ours["grpc_tensor_calls"] == 0
    assert ours["farwrite"]["received"] >= 15 * ours["tensors_per_step"]
    assert facts["speedup"].keys() == {"64-128-10"}


@pytest.mark.parametrize(
    "ending", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_an_interrupted_training_leaves_nothing_behind(ending: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*TRAINING, "--transport", "grpc", "--steps", "100000", "--output", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            assert any(line == "gRPC (stock): 4 processes: ready\n" for line in lines)
            if ending == signal.SIGINT:
                os.killpg(process.pid, ending)  # as a terminal's Ctrl-C
            else:
                process.send_signal(ending)
            assert process.wait(30) == (130 if ending == signal.SIGINT else -ending)
        finally:
            process.kill()
    give_up = time.monotonic() + 10
    while group_lives(process.pid):
        assert time.monotonic() < give_up, "a task still runs"
        time.sleep(0.05)


def test_a_task_that_fails_is_reported_with_what_it_said(tmp_path: Path) -> None:
    nonsense = Transport("nonsense", "nonsense", "grpc")
    seat = Seat({"ps": free_addresses(1)}, "ps", 7, nonsense, Threads())
    with Task("ps:7", "farwrite_bench.cluster.server", {}, tmp_path / "ps.log") as task:
        task.send(seat)
        with pytest.raises(fw.PeerDead, match=r"ps:7 failed: (?s:.*)ps\.log"):
            task.receive()


def test_a_task_that_ends_is_reported(tmp_path: Path) -> None:
    with (
        Task("gone", "this", {}, tmp_path / "gone.log") as task,
        pytest.raises(fw.PeerDead, match="gone ended early"),
    ):
        task.receive()


def test_what_is_missing_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(fw.FailedPrecondition, match=r"pip install .*tensorflow.* scikit-learn"):
        require("the demo", "tensorflow", "sklearn")


def test_the_order_of_batches_never_changes() -> None:
    digits = load()
    assert len(digits.train_images) + len(digits.test_images) == 1797
    order = batches(digits, 100)
    np.testing.assert_array_equal(order, batches(digits, 100))
    np.testing.assert_array_equal(order[:7], batches(digits, 7))
    whole = len(digits.train_images) // BATCH
    assert len(np.unique(order[:whole])) == whole * BATCH  # no image twice in an epoch
    assert (order[:whole] != order[whole : 2 * whole]).any()


def test_the_judge_knows_a_right_answer() -> None:
    images = np.eye(3, dtype=np.float32)
    weights = [np.eye(3, dtype=np.float32) * 50, np.zeros(3, np.float32)]
    loss, accuracy = judge(weights, images, np.array([0, 1, 2], np.int32))
    assert (round(loss, 6), accuracy) == (0, 1)
    loss, accuracy = judge(weights, images, np.array([0, 1, 1], np.int32))
    assert loss > 10
    assert accuracy == pytest.approx(2 / 3)


def test_the_fingerprint_sees_one_bit() -> None:
    weights = initial_weights(SMALL)
    assert fingerprint(weights) == fingerprint(initial_weights(SMALL))
    weights[1][0] = -0.0  # equals 0.0, and differs from it in one bit
    assert fingerprint(weights) != fingerprint(initial_weights(SMALL))


def test_the_models_are_as_large_as_they_say() -> None:
    for model in (SMALL, LARGE):
        if model is SMALL:
            assert sum(weight.size for weight in initial_weights(model)) == model.parameters
    assert LARGE.bytes == 4 * 8_546_314


def test_a_speedup_needs_both_transports() -> None:
    runs = [
        {"model": "a", "transport": "grpc", "step_ms": {"median": 30.0}},
        {"model": "a", "transport": "farwrite", "step_ms": {"median": 10.0}},
        {"model": "b", "transport": "grpc", "step_ms": {"median": 30.0}},
    ]
    assert speedups(runs) == {"a": 3.0}
    assert percentile([1.0], 90) == 1.0
    assert percentile(list(range(101)), 90) == 90


def test_socket_bytes_count_what_went_through_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        left = socket.create_connection(server.getsockname())
        right, _ = server.accept()
    with left, right:
        before = socket_bytes()
        left.sendall(bytes(100_000))
        received = 0
        while received < 100_000:
            received += len(right.recv(65536))
        right.sendall(bytes(50))
        assert len(left.recv(50)) == 50
        give_up = time.monotonic() + 10
        while socket_bytes().sent - before.sent < 100_050:  # until all is acknowledged
            assert time.monotonic() < give_up
        after = socket_bytes()
    assert after.sent - before.sent == 100_050
    assert after.received - before.received == 100_050


def test_digits_are_what_the_network_expects() -> None:
    digits: Digits = load()
    assert digits.train_images.dtype == np.float32
    assert digits.train_images.shape[1] == LARGE.widths[0] == SMALL.widths[0]
    assert 0 <= digits.train_images.min() < digits.train_images.max() == 1
    assert set(digits.test_labels) == set(range(10))
