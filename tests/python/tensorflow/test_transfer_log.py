"""Users' own tools show the tensors between tasks: RunMetadata, the timeline, tf.profiler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cluster import FARWRITE, STOCK, cluster

JOBS = {"ps": 1, "worker": 1}
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
LARGE = 300_000 * 4
# As stock writes it, and what the plug-in adds.
LABEL = re.compile(
    r"\[(?P<size>[\d.]+M?B)\] (?:\[[\d.]+[MG]b/s\] )?(?P<edge>\S+) from (?P<source>\S+)"
    r" to (?P<target>\S+)(?: by (?P<way>\S+) over (?P<fabric>\S+))?"
)


def received(result: dict[str, Any]) -> dict[tuple[str, str, int], str]:
    """Return the label of each RecvTensor node, by its device, tensor and bytes."""
    return {
        (node["device"], node["edge"], node["bytes"]): node["label"]
        for node in result["transfers"]
        if node["node"] == "RecvTensor"
    }


def trace(folder: Path, protocol: str, environment: dict[str, str]) -> dict[str, Any]:
    folder.mkdir()
    with cluster(folder, JOBS, protocol, environment) as made:
        result: dict[str, Any] = made.run("run_metadata.py")
        if protocol == FARWRITE:
            assert made.total("grpc_recv_tensor_calls") == 0
    return result


@pytest.mark.timeout(600)
def test_run_metadata_shows_what_stock_shows_and_the_way(tmp_path: Path) -> None:
    stock = received(trace(tmp_path / "stock", STOCK, {}))
    for fabric in ("shm", "tcp"):
        traced = trace(tmp_path / fabric, FARWRITE, {"FARWRITE_FABRICS": fabric})
        ours = received(traced)
        assert set(ours) == set(stock)
        ways = set()
        for key, label in ours.items():
            found, same = LABEL.fullmatch(label), LABEL.fullmatch(stock[key])
            assert found is not None and same is not None, label
            for field in ("size", "edge", "source", "target"):
                assert found[field] == same[field]
            assert found["fabric"] == fabric
            ways.add((key[2] == LARGE, found["way"]))
        assert {(False, "inline"), (False, "serialized")} < ways
        assert {way for large, way in ways if large} <= {"alias", "landed", "read"}
        assert ((True, "alias") in ways) == (fabric == "shm")
        assert traced["untraced"] == 0

        # The sender's half. What is sent before its task records is missing, as in stock.
        sends = [node for node in traced["transfers"] if node["node"] == "SendTensor"]
        assert {node["edge"] for node in sends} <= {edge for _, edge, _ in ours}
        assert LARGE in {node["bytes"] for node in sends}
        for node in sends:
            target = {PS: WORKER, WORKER: PS}[node["device"]]
            assert f"{node['edge']} = SendTensor(to {target}, by " in node["label"]
            assert node["label"].endswith(f" over {fabric})")

        # The timeline draws both.
        assert sorted(traced["drawn"]) == sorted(traced["recorded"])
        assert {"RecvTensor", "SendTensor"} == set(traced["drawn"])


@pytest.mark.timeout(200)
def test_a_profile_shows_both_sides_of_a_transfer(tmp_path: Path) -> None:
    with cluster(tmp_path, JOBS, FARWRITE, {"FARWRITE_FABRICS": "shm"}) as made:
        made.run("run_metadata.py")
        for task in made.tasks.values():
            assert task.ask(f"profile {tmp_path}") == "on"
        made.run("run_metadata.py")
        spans = {name: task.ask("profiled") for name, task in made.tasks.items()}
    large = {
        (task, span["name"], span["way"], span["from"], span["to"])
        for task, found in spans.items()
        for span in found
        if span["tensor"].split("_", 2)[-1].startswith("Read/ReadVariableOp")
        and int(span["bytes"]) == LARGE
    }
    sent = {entry for entry in large if entry[1] == "SendTensor"}
    assert {entry[0] for entry in sent} == {"ps0"}
    assert {entry[3:] for entry in sent} == {(PS, WORKER)}
    assert ("worker0", "RecvTensor", "alias", PS, WORKER) in large
