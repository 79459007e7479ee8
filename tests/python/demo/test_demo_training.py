"""Small end-to-end runs of ``farwrite demo training``. No test asserts a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from farwrite_demo.training.command import agreement, require, results
from farwrite_demo.training.network import (
    BATCH,
    LARGE,
    SMALL,
    batches,
    fingerprint,
    initial_weights,
    judge,
    load_digits,
)
from processes import group_lives

TRAINING = [sys.executable, "-m", "farwrite", "demo", "training"]


def train(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    ended = subprocess.run(
        [*TRAINING, "--model", "small", "--output", str(folder), *options],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "tensorflow/" not in ended.stdout + ended.stderr  # these are in the logs
    assert ElementTree.fromstring((folder / "steps.svg").read_text()).tag.endswith("svg")
    return json.loads((folder / "results.json").read_text()), ended.stdout


def test_training_over_stock_grpc_fills_the_results(tmp_path: Path) -> None:
    facts, shown = train(tmp_path, "--transport", "grpc", "--steps", "20")
    (run,) = facts["runs"]
    assert (run["model"], run["transport"], run["steps"]) == ("small", "grpc", 20)
    assert run["parameters"] == SMALL.parameters == 9610
    assert len(run["all_step_ms"]) == 20
    assert 0 < run["step_ms"]["median"] <= run["step_ms"]["p90"]
    assert run["tensor_bytes_per_step"] == 2 * 4 * 9610
    # Every parameter and every gradient went through a socket, once.
    assert 1 < run["socket_bytes_per_step"] / run["tensor_bytes_per_step"] < 2
    assert run["ps_peak_rss_bytes"] > 1 << 20
    assert run["copies_per_step"] is None
    assert run["grpc_tensor_calls"] is None
    assert facts["speedup"] == {}
    assert "small: one hidden layer of 128 units, 37.54 KiB of weights" in shown
    assert "To expect" in shown


@pytest.mark.slow
def test_farwrite_and_grpc_end_with_the_same_weights(tmp_path: Path) -> None:
    facts, shown = train(tmp_path, "--synchronous", "--steps", "15")
    assert [run["transport"] for run in facts["runs"]] == ["grpc", "farwrite"]
    (weights,) = facts["synchronous_weights"]
    assert weights["identical"] is True
    assert len(set(weights["sha256"].values())) == 1
    assert "the same bit for bit" in shown
    ours = facts["runs"][1]
    assert ours["grpc_tensor_calls"] == 0
    assert ours["farwrite"]["received"] >= 15 * ours["tensors_per_step"]
    assert facts["speedup"].keys() == {"small"}


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


def test_what_is_missing_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(fw.FailedPrecondition, match=r"pip install .*tensorflow.* scikit-learn"):
        require("tensorflow", "sklearn")


def test_the_order_of_batches_never_changes() -> None:
    digits = load_digits()
    images = len(digits.train_images)
    assert images + len(digits.test_images) == 1797
    order = batches(images, 100)
    np.testing.assert_array_equal(order, batches(images, 100))
    np.testing.assert_array_equal(order[:7], batches(images, 7))
    whole = images // BATCH
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
    assert sum(weight.size for weight in initial_weights(SMALL)) == SMALL.parameters
    assert LARGE.parameters == 8_546_314


def run_of(model: str, transport: str, milliseconds: float, **more: object) -> dict[str, Any]:
    facts = {"model": model, "transport": transport, "step_ms": {"median": milliseconds}}
    return {**facts, "ps_peak_rss_bytes": milliseconds, **more}


def test_a_ratio_needs_both_transports() -> None:
    runs = [run_of("a", "grpc", 30.0), run_of("a", "farwrite", 10.0), run_of("b", "grpc", 30.0)]
    found = results(runs, [], [])
    assert found["speedup"] == {"a": 3.0}
    assert found["ps_peak_rss_ratio"] == 0.333
    assert results(runs[:1], [], [])["ps_peak_rss_ratio"] is None


def test_weights_agree_only_where_both_transports_have_the_same() -> None:
    def proof(model: str, transport: str, weights: str) -> dict[str, Any]:
        return run_of(model, transport, 1.0, synchronous=True, steps=5, weights_sha256=weights)

    runs = [
        *(proof("same", "grpc", "1"), proof("other", "grpc", "1"), proof("alone", "grpc", "1")),
        *(proof("same", "farwrite", "1"), proof("other", "farwrite", "2")),
        run_of("same", "farwrite", 1.0, synchronous=False),
    ]
    verdicts = {entry["model"]: entry["identical"] for entry in agreement(runs)}
    assert verdicts == {"same": True, "other": False, "alone": None}


def test_digits_are_what_the_network_expects() -> None:
    digits = load_digits()
    assert digits.train_images.dtype == np.float32
    assert digits.train_images.shape[1] == LARGE.widths[0] == SMALL.widths[0]
    assert 0 <= digits.train_images.min() < digits.train_images.max() == 1
    assert set(digits.test_labels) == set(range(10))
