"""farwrite plan: the simulation against what can be computed by hand, and the calibration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from plan_of import plan_of

from farwrite.errors import InvalidArgument
from farwrite_bench.cluster.transport import FARWRITE
from farwrite_experiments.capacity import benchmark
from farwrite_experiments.capacity.benchmark import BENCHMARK
from farwrite_experiments.capacity.calibrate import PROBES, costs_of
from farwrite_experiments.capacity.costs import Costs, TransportCosts, read_costs, write_costs
from farwrite_experiments.capacity.flow import Flow, Work
from farwrite_experiments.capacity.job import Job, Site, Stage, stages
from farwrite_experiments.capacity.plan import (
    answers,
    kind_of,
    moves,
    of_edges,
    of_network,
)
from farwrite_experiments.capacity.predict import COMPUTATION, predict
from farwrite_experiments.capacity.published import UNKNOWN
from farwrite_experiments.capacity.published import rows as published_rows
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.networks.network import LSTM, VGG16
from farwrite_experiments.train.plan import ONE_PROCESS, Way
from warm_python import run_python

MB = 10**6
LINK = Link(8e9)
"""A gigabyte a second."""
FREE = TransportCosts(0.0, 1e12, 0.0, 0.0, 1e-9, 0.0)
"""Costs nothing but the link."""
COSTS = Costs(2, 0.0, {"free": FREE})


def test_work_without_a_resource_lasts_as_long_as_its_amount_says() -> None:
    work = Work(6.0, limit=2.0)
    assert Flow({}).run([work]) == pytest.approx(3.0)


def test_works_share_a_resource_and_speed_up_when_one_ends() -> None:
    short, long = (Work(amount, 10.0, {"link": 1.0}) for amount in (5.0, 15.0))
    flow = Flow({"link": 10.0})
    assert flow.run([short, long]) == pytest.approx(2.0)
    assert short.ended == pytest.approx(1.0)
    assert flow.shares() == pytest.approx({"link": 1.0})


def test_works_share_a_resource_by_their_limits() -> None:
    slow = Work(2.0, 2.0, {"link": 1.0})
    fast = Work(8.0, 100.0, {"link": 1.0})
    Flow({"link": 10.0}).run([slow, fast])
    # Both are raised to the same share of their limits, 10 / 102, until the fast one has ended.
    assert fast.ended == pytest.approx(0.816)
    assert slow.ended == pytest.approx(0.816 + (2.0 - 0.16) / 2)


def test_a_queue_keeps_the_order_in_which_works_could_begin() -> None:
    late = Work(1.0, delay=0.5, queue="a")
    first, second = Work(1.0, queue="a"), Work(1.0, queue="a")
    Flow({}).run([late, first, second])
    assert [first.ended, second.ended, late.ended] == pytest.approx([1.0, 2.0, 3.0])


def test_a_work_waits_for_all_that_it_follows() -> None:
    one, other = Work(1.0), Work(2.0)
    end = Work(1.0).after(one, other)
    assert Flow({}).run([one, other]) == pytest.approx(3.0)
    assert end.ended == pytest.approx(3.0)


def one_layer(size: int, seconds: float) -> tuple[Stage, ...]:
    return (Stage((size,), seconds / 3, 2 * seconds / 3),)


def test_a_step_of_one_worker_pulls_computes_and_pushes() -> None:
    # The worker beside the server does not use the link.
    job = Job(one_layer(100 * MB, 0.3), workers=1, servers=1)
    assert predict(job, Site(LINK, 2), COSTS, FREE).step_s == pytest.approx(0.3, rel=1e-3)


def test_a_servers_link_carries_every_other_workers_copy() -> None:
    job = Job(one_layer(100 * MB, 0.3), workers=4, servers=1)
    found = predict(job, Site(LINK, 2), COSTS, FREE)
    assert found.step_s == pytest.approx(0.3 + 2 * 3 * 0.1, rel=1e-3)
    assert found.exposed_s == pytest.approx(0.6, rel=1e-3)
    assert kind_of(found.bottleneck) in ("link out of server", "link in of server")


def test_communication_hides_behind_the_layers_before_and_after() -> None:
    # The second layer's variable arrives while the first one computes.
    layers = (Stage((), 0.2, 0.4), Stage((100 * MB,), 0.1, 0.2))
    job = Job(layers, workers=2, servers=1)
    found = predict(job, Site(LINK, 2), COSTS, FREE)
    assert found.exposed_s == pytest.approx(0.0, abs=1e-6)
    assert found.bottleneck == COMPUTATION


def test_a_straggler_delays_all_workers_of_a_synchronous_step() -> None:
    job = Job(one_layer(4, 0.3), workers=4, servers=1, straggler=2.0)
    assert predict(job, Site(LINK, 2), COSTS, FREE).step_s == pytest.approx(0.6, rel=1e-3)


def test_workers_that_do_not_wait_are_slowed_by_what_they_share() -> None:
    alone = Job(one_layer(100 * MB, 0.3), workers=1, servers=1, sync=False)
    few = Job(alone.stages, workers=8, servers=1, sync=False)
    many = Job(alone.stages, workers=800, servers=1, sync=False)
    site = Site(LINK, 2)
    steps = [predict(job, site, COSTS, FREE).step_s for job in (alone, few, many)]
    # 0.1 s of the link for each worker and direction, but for the one on the server's machine.
    assert steps[0] == pytest.approx(0.3, rel=1e-2)
    assert steps[1] >= 0.7
    assert steps[2] == pytest.approx(80, rel=0.5)


def test_processors_of_one_host_are_shared_and_those_of_machines_are_not() -> None:
    costs = Costs(2, 0.0, {"busy": TransportCosts(1e-9, 1e12, 0.0, 0.0, 1e-9, 0.0)})
    job = Job(one_layer(100 * MB, 0.0), workers=8, servers=8)
    apart, together = (
        predict(job, Site(None, 2, one_host=one_host), costs, costs.transports["busy"]).step_s
        for one_host in (False, True)
    )
    # All of the traffic is of one server; its machine has half of the costs.
    assert together == pytest.approx(2 * apart, rel=1e-3)


def test_a_calibration_finds_the_costs_that_made_its_steps() -> None:
    truth = Costs(2, 1e-10, {"farwrite tcp": TransportCosts(5e-10, 2e9, 3e-5, 2e-5, 5e-4, 8e-4)})
    way = Way(FARWRITE, "tcp")
    steps = {}
    for network in PROBES:
        job = Job(stages(network.layers, 0.0), 1, 1)
        site = Site(None, 2, one_host=True)
        transport = truth.transports[way.key]
        found = predict(job, site, truth, transport)
        variables = 2 * len(network.variables)
        busy = 5 * truth.pass_s_per_byte * network.bytes
        more = (
            transport.step_cpu_s
            + variables * transport.message_cpu_s
            + 2 * network.bytes * transport.cpu_s_per_byte
        )
        steps[network.key] = {
            ONE_PROCESS.key: np.array([found.local_s, busy]),
            way.key: np.array([found.step_s, busy + more]),
        }
    again = costs_of(steps, [way], cores=2)
    assert again.pass_s_per_byte == pytest.approx(truth.pass_s_per_byte, rel=0.01)
    mine, theirs = again.transports[way.key], truth.transports[way.key]
    for name in ("cpu_s_per_byte", "stream_bytes_s", "message_s", "message_cpu_s", "step_s"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=0.1), name


def test_a_calibration_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "costs.json"
    write_costs(path, COSTS)
    assert read_costs(path) == COSTS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no calibration"),
        ("[]", "is no calibration"),
        ('{"version": 1, "cores": 2, "transports": {}}', "is no calibration"),
        (
            '{"version": 0, "cores": 2, "pass_s_per_byte": 0, "transports": {}, "measured": {}}',
            "has version 0, not 1; calibrate again",
        ),
    ],
)
def test_a_damaged_calibration_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(InvalidArgument, match=message):
        read_costs(path)
    with pytest.raises(InvalidArgument, match="is no calibration"):
        read_costs(tmp_path / "none.json")


def test_a_transport_that_was_not_calibrated_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no transport grpc, only free"):
        COSTS.transport("grpc")


def edge(source: str, target: str, size: int, *, control: bool = False) -> dict[str, object]:
    return {"source_task": source, "target_task": target, "max_bytes": size, "control": control}


def test_edges_of_a_saved_graph_make_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "edges.json"
    path.write_text(
        json.dumps(
            [
                edge("ps:0", "worker:0", 400),
                edge("ps:0", "worker:0", 100),
                edge("ps:0", "worker:0", 0, control=True),
                edge("worker:0", "ps:0", 400),
            ]
        )
    )
    found = of_edges(path, 8, 30.0)
    assert [stage.variables for stage in found.stages] == [(100, 400)]
    assert sum(stage.forward_s + stage.backward_s for stage in found.stages) == pytest.approx(0.03)


def test_edges_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "edges.json"
    with pytest.raises(InvalidArgument, match="--compute-ms"):
        of_edges(path, 8, None)
    with pytest.raises(InvalidArgument, match="is not a list of edges"):
        of_edges(path, 8, 1.0)
    path.write_text(json.dumps([edge("worker:0", "ps:0", 400)]))
    with pytest.raises(InvalidArgument, match="no edge of a known size"):
        of_edges(path, 8, 1.0)


def test_the_mnist_network_needs_a_time() -> None:
    with pytest.raises(InvalidArgument, match="--compute-ms"):
        of_network("mnist_mlp", 100, None)


def test_the_bottleneck_moves_to_the_servers_link() -> None:
    workload = of_network(LSTM.key, 1, 100.0)
    site = Site(LINK, 2, accelerated=True)
    rows = answers(workload, site, COSTS, workers=(2, 1024), transports=("free",), servers=1)
    assert rows[0]["bottleneck"] == COMPUTATION
    assert rows[1]["bottleneck"].startswith("link")
    assert moves(rows)[0].startswith("free: limited by computation with 2, by link")


def test_published_figures_are_predicted_or_their_condition_is_named() -> None:
    costs = Costs(2, 1e-10, {"grpc": FREE, "farwrite tcp": FREE})
    rows = list(published_rows(costs))
    known = [row for row in rows if "missing" not in row]
    assert len(rows) - len(known) == len(UNKNOWN)
    assert len(known) == 6 + 3 + 4
    vgg = next(row for row in known if row["what"].startswith(VGG16.name))
    assert vgg["predicted"][0] < vgg["predicted"][1] <= 8
    for row in known:
        low, high = row["predicted"]
        assert (row["prediction_error"] == 0) == (low <= row["published"] <= high)


def plan(*words: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "farwrite", "plan", *words, seconds=seconds)


def test_the_command_predicts_from_a_calibration(tmp_path: Path) -> None:
    costs, figures = tmp_path / "costs.json", tmp_path / "plan.json"
    write_costs(costs, Costs(2, 1e-10, {"grpc": FREE, "farwrite tcp": FREE}))
    words = ("--calibration", str(costs), "--model", "vgg16", "--workers", "1,1000")
    ended = plan(*words, "--transport", "grpc", "--json", str(figures))
    assert ended.returncode == 0, ended.stderr
    rows = json.loads(figures.read_text())["rows"]
    assert [row["workers"] for row in rows] == [1, 1000]
    assert rows[1]["step_ms"] > 100 * rows[0]["step_ms"]
    assert "grpc: limited by computation with 1, by link" in ended.stdout


@pytest.mark.parametrize(
    ("words", "kept"), [((), True), (("--quick",), False), (("--quick", "--calibration"), True)]
)
def test_a_quick_calibration_is_kept_only_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], kept: bool
) -> None:
    file = tmp_path / "calibration.json"
    costs = Costs(2, 1e-10, {"grpc": FREE, "farwrite tcp": FREE})
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path))
    monkeypatch.setattr(benchmark, "require", lambda *_: None)
    monkeypatch.setattr(benchmark, "calibrate", lambda *_: costs)
    named = (str(file),) if "--calibration" in words else ()
    made = plan_of(BENCHMARK, "plan", "--calibrate", "--published", *words, *named)
    found = BENCHMARK.measure(made, lambda *_: None, tmp_path)
    (table,) = [each for each in BENCHMARK.tables if each.cells(found)]
    assert table.title == "The papers' clusters" and BENCHMARK.charts[0](found) == []
    assert file.exists() == kept


def test_a_calibration_that_cannot_be_kept_is_refused_before_it_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(benchmark, "require", lambda *_: None)
    with pytest.raises(InvalidArgument, match=r"cannot write .*; name another.*--calibration"):
        plan_of(BENCHMARK, "plan", "--calibration", str(tmp_path / "file" / "costs.json"))


def test_a_straggler_that_is_faster_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for factor in ("0.5", "inf", "much"):
        with pytest.raises(SystemExit):
            plan_of(BENCHMARK, "plan", "--straggler", factor)
        assert "is not a factor; use 1 or more" in capsys.readouterr().err
