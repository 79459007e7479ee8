"""farwrite bench scaling: small runs end to end, and its rows. No test asserts a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from training_results import COSTS

from bench_command import bench, result
from farwrite_bench.cluster.group import Turn
from farwrite_experiments.capacity.costs import write_costs
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.cluster.machines import why_no_namespaces
from farwrite_experiments.scaling.benchmark import (
    LINKS,
    MACHINES,
    MODELS,
    QUICK,
    SHORT,
    expected_seconds,
    points,
    sentences,
    ways,
)
from farwrite_experiments.scaling.run import Point, ScalingPlan, make_rows

WAYS = ways(["grpc", "farwrite"])


def scaling(tmp_path: Path, *words: str) -> dict[str, Any]:
    """Run the command for a network of 28 MB, and return its facts."""
    costs, figures = tmp_path / "costs.json", tmp_path / "scaling.json"
    write_costs(costs, COSTS)
    shared = ("--model", "gru", "--batch", "1", "--rounds", "1", "--quick", "--json", str(figures))
    ended = bench("scaling", *shared, "--calibration", str(costs), *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return result(figures, "scaling")


def test_on_the_loopback_nothing_is_shaped(tmp_path: Path) -> None:
    facts = scaling(tmp_path, "--loopback", "--machines", "1", "--transport", "farwrite")
    (row,) = facts["rows"]
    assert (row["workers"], row["servers"], row["link"]) == (1, 1, None)
    assert (row["transport"], row["fabric"]) == ("farwrite", "tcp")
    assert row["step_ms"] >= 30.44
    assert row["predicted_ms"] >= 30.44
    assert any("no links are shaped" in note for note in facts["notes"])


@pytest.mark.slow
@pytest.mark.namespaces
def test_machines_train_over_their_links(tmp_path: Path) -> None:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(f"no network namespaces: {reason}")
    facts = scaling(tmp_path, "--machines", "2", "--link", "2G")
    rows = facts["rows"]
    assert [(row["transport"], row["link"]) for row in rows] == [
        ("grpc", "2Gbit/s"),
        ("farwrite", "2Gbit/s"),
    ]
    # Each server sends its half of the variables to the other machine's worker, and gets gradients.
    least = 2 * 14e6 / 2.5e8
    assert all(row["step_ms"] >= 1e3 * least for row in rows)


def turns(seconds: float, busy: float) -> list[Turn]:
    return [Turn([seconds], [], [], busy)] * 3


def test_rows_compare_with_stock_and_with_a_local_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    point = Point("gru", 1, 4, Link(10e9))
    of_way = {"grpc": turns(0.4, 0.1), "farwrite tcp": turns(0.1, 0.19)}
    stock, ours = make_rows(point, WAYS, of_way, 0.05, COSTS, together=True, load=0.5)
    assert (stock["of_local"], ours["of_local"]) == (0.5, 2.0)
    assert (stock["speedup"], ours["speedup"]) == (1.0, 4.0)
    assert ours["samples_s"] == 40.0
    assert (stock["cores_busy"], stock["counts"]) == (0.125, True)
    assert (ours["cores_busy"], ours["counts"]) == (0.95, False)
    assert ours["prediction_error"] == pytest.approx(ours["predicted_ms"] / 100 - 1, abs=1e-3)
    said = list(sentences({"rows": [stock, ours]}))
    assert "of 2 points" in said[0]
    assert said[1].startswith("1 of 2 rows do not count")


def test_the_default_run_ends_within_ten_minutes() -> None:
    whole = points(MODELS, 32, MACHINES, LINKS)
    assert len(whole) == 9
    assert expected_seconds(ScalingPlan(whole, WAYS, SHORT)) <= 600
    assert expected_seconds(ScalingPlan(whole, WAYS, QUICK)) < expected_seconds(
        ScalingPlan(whole, WAYS, SHORT)
    )
