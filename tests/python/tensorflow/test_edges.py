"""What is known of the edges between tasks: from graphs, from annotations, from what went."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster, cluster

from farwrite.plugin.edges import Edge, edges_table

META = "edges.meta"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A ps and a worker that have run both programs."""
    with cluster(tmp_path_factory.mktemp("edges"), {"ps": 1, "worker": 1}) as made:
        yield made


@pytest.fixture(scope="module")
def session_edges(tasks: Cluster) -> dict[str, list[Edge]]:
    """What each task knows after two steps of the sessions' program."""
    tasks.run("edges_v1.py", str(tasks.folder / META))
    return {name: task.ask("edges") for name, task in tasks.tasks.items()}


@pytest.fixture(scope="module")
def function_edges(tasks: Cluster, session_edges: object) -> dict[str, list[Edge]]:
    """What each task and the client know after three calls of a function."""
    client = tasks.run("edges_tf2.py")
    return {
        "chief": client["edges"],
        **{name: task.ask("edges") for name, task in tasks.tasks.items()},
    }


def by_producer(edges: list[Edge], source: str, target: str) -> dict[str, Edge]:
    """Pick the tensors that go from one task to another."""
    return {
        edge["producer"]["name"]: edge
        for edge in edges
        if (edge["source_task"], edge["target_task"]) == (source, target) and not edge["control"]
    }


def row(edge: Edge) -> tuple[Any, ...]:
    return (
        edge["producer"]["op"],
        [(node["name"], node["op"]) for node in edge["consumers"]],
        edge["dtype"],
        edge["shape"],
        edge["sizing"],
        edge["max_bytes"],
    )


ROWS = {
    "static": ("AddV2", "take_static", "float", [3000], "static", 12000),
    "dynamic": ("Mul", "take_dynamic", "float", [None, 4], "dynamic", 0),
    "string": ("AsString", "take_string", "string", [5], "dynamic", 0),
    "ref/read": ("Identity", "take_ref", "float", [3000], "static", 12000),
    "Identity": ("Identity", "take_variable", "float", [3000], "static", 12000),
    "branched": ("Neg", "take_branch", "float", [3000], "static", 12000),
    "while/looped": ("AddV2", "while/back", "float", [7], "static", 28),
}


@pytest.mark.timeout(300)
def test_a_session_knows_its_edges_at_both_ends(session_edges: dict[str, list[Edge]]) -> None:
    for task in ("ps0", "worker0"):
        rows = {
            name: row(edge)
            for name, edge in by_producer(session_edges[task], "ps:0", "worker:0").items()
        }
        assert rows == {
            name: (op, [(consumer, "Mul" if name == "while/looped" else "Identity")], *rest)
            for name, (op, consumer, *rest) in ROWS.items()
        }, task


@pytest.mark.timeout(300)
def test_the_sender_counts_what_went(session_edges: dict[str, list[Edge]]) -> None:
    sent = by_producer(session_edges["ps0"], "ps:0", "worker:0")
    ways = {name: edge["ways"] for name, edge in sent.items()}
    assert ways == {
        "static": {"zero_copy": 2},
        "dynamic": {"inline": 2},
        "string": {"serialized": 2},
        "ref/read": {"snapshot": 2},
        "Identity": {"zero_copy": 2},
        "branched": {"zero_copy": 2},
        "while/looped": {"inline": 8},  # dead at the end of either step
    }
    assert [name for name, edge in sent.items() if edge["varied"]] == ["dynamic"]
    assert sent["dynamic"]["last_shape"] == [3, 4]
    assert sent["dynamic"]["bytes"] == (2 + 3) * 4 * 4
    assert [name for name, edge in sent.items() if edge["ref"]] == ["ref/read"]
    assert [name for name, edge in sent.items() if edge["variable"]] == ["ref/read", "Identity"]
    assert "ref variable" in sent["ref/read"]["reason"]
    assert sent["static"]["reason"] == ""
    received = by_producer(session_edges["worker0"], "ps:0", "worker:0")
    assert not any(edge["ways"] for edge in received.values())


@pytest.mark.timeout(300)
def test_what_keeps_a_loop_in_step_is_known_too(session_edges: dict[str, list[Edge]]) -> None:
    back = by_producer(session_edges["worker0"], "worker:0", "ps:0")
    assert back["_recv_feed_0"]["shape"] == [None, 4]  # as the placeholder says
    assert back["while/Identity_1"]["shape"] == [7]
    assert back["while/LoopCond"]["shape"] == []
    assert back["branch/Switch"]["shape"] == []
    (control,) = [edge for edge in session_edges["worker0"] if edge["control"]]
    assert control["producer"]["name"] == "while/Identity"
    assert control["sizing"] == "static" and control["bytes"] == 0
    for edge in session_edges["ps0"]:
        assert edge["control"] == (edge["producer"]["name"] == "while/Identity")


@pytest.mark.timeout(300)
def test_the_sender_of_a_functions_part_knows_what_the_caller_inferred(
    function_edges: dict[str, list[Edge]],
) -> None:
    for task in ("ps0", "chief"):
        edges = by_producer(function_edges[task], "ps:0", "worker:0")
        assert edges["free"]["sizing"] == "dynamic"
        read = edges["Read/ReadVariableOp"]
        assert (read["sizing"], read["shape"], read["variable"]) == ("static", [3000, 4], True)
        looped = next(edge for name, edge in edges.items() if name.endswith("/looped"))
        for edge in (edges["bounded"], edges["identified"], edges["fused"], looped):
            assert edge["shape"] == [None, 4]
            assert edge["bound"] == [3000, 4]
            assert (edge["sizing"], edge["max_bytes"]) == ("bounded", 48000)
        halves = edges["halves"]
        assert (halves["shape"], halves["pinned"]) == ([None, 2], [3000, 2])
        assert (halves["sizing"], halves["max_bytes"]) == ("static", 24000)
    given = by_producer(function_edges["chief"], "chief:0", "worker:0")["given"]
    assert (given["sizing"], given["broke_annotation"]) == ("bounded", 1)


@pytest.mark.timeout(300)
def test_a_tensor_that_breaks_its_annotation_goes_and_is_counted(
    tasks: Cluster, function_edges: dict[str, list[Edge]]
) -> None:
    edges = by_producer(function_edges["ps0"], "ps:0", "worker:0")
    broke = {name.split("/")[-1] for name, edge in edges.items() if edge["broke_annotation"] == 1}
    assert broke == {"bounded", "identified", "fused", "looped", "halves"}
    assert all(edges[name]["last_shape"] == [3001, 4] for name in ("bounded", "free"))
    assert tasks.tasks["ps0"].stats()["broke_annotations"] == 5
    assert "broke its annotation 1 times" in edges_table(function_edges["ps0"])


@pytest.mark.timeout(300)
def test_an_eager_copy_is_observed(function_edges: dict[str, list[Edge]]) -> None:
    (copy,) = [
        edge
        for edge in function_edges["ps0"]
        if not edge["in_graph"] and edge["target_task"] == "worker:0"
    ]
    assert (copy["last_shape"], copy["sizing"], copy["varied"]) == ([3000], "unknown", False)


def analyze(
    *arguments: str, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "farwrite", "tensorflow", "analyze", *arguments),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_saved_graph_has_the_edges_that_it_has_when_it_runs(
    tasks: Cluster, session_edges: dict[str, list[Edge]], tmp_path: Path
) -> None:
    fetches = [f"--fetch=take_{name}" for name in ("static", "dynamic", "ref", "branch")]
    written = tmp_path / "edges.json"
    said = analyze(str(tasks.folder / META), *fetches, f"--json={written}")
    assert said.returncode == 0, said.stderr
    edges = by_producer(json.loads(written.read_text()), "ps:0", "worker:0")
    ran = by_producer(session_edges["ps0"], "ps:0", "worker:0")
    assert sorted(edges) == ["branched", "dynamic", "ref/read", "static"]
    assert {name: row(edge) for name, edge in edges.items()} == {
        name: row(ran[name]) for name in edges
    }
    assert "static        3 edges, 35.16 KiB a step" in said.stdout
    assert "dynamic       1 edge\n" in said.stdout


# All in one process, because TensorFlow takes seconds to import.
SAVE_AND_ANALYZE = """
import contextlib, io, json, sys
import numpy as np
import tensorflow as tf
from farwrite.cli import main
class Model(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(np.ones([4, 8], np.float32), name="weights")
    @tf.function(input_signature=[tf.TensorSpec([10, 4])])
    def __call__(self, given):
        with tf.device("/job:ps/task:0"):
            hidden = tf.matmul(given, self.weights, name="hidden")
        with tf.device("/job:worker/task:0"):
            return {"out": tf.nn.relu(hidden, name="act")}
folder, calls = sys.argv[1], json.loads(sys.argv[2])
model = Model()
tf.saved_model.save(model, folder, signatures=model.__call__)
with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
    tf.identity(tf.ones([3]), name="alone")
tf.io.write_graph(graph, folder, "alone.pbtxt")
said = []
for arguments in calls:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            status = main(["tensorflow", "analyze", *arguments])
        except SystemExit as exit:
            status = exit.code
    said.append([status, text.getvalue()])
print(json.dumps(said))
"""


@pytest.mark.timeout(300)
def test_a_saved_model_and_what_is_wrong_with_others(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff no graph")
    (tmp_path / "bad.pbtxt").write_text("node {{")
    (tmp_path / "empty.pb").write_bytes(b"")
    (tmp_path / "unknown.pbtxt").write_text('node { name: "a" op: "NoSuchOp" }')
    everywhere = "--default-device=/job:worker/task:0"
    calls = [
        ([str(folder), everywhere, "--place=weights=/job:ps/task:0"], "float [10, 8]"),
        ([str(folder)], "nodes have no device: "),
        ([str(folder / "alone.pbtxt")], "are in one task, ps:0"),
        (
            [str(folder), everywhere, "--signature=none"],
            "the signatures are: __saved_model_init_op, serving",
        ),
        ([str(folder / "alone.pbtxt"), "--fetch=b"], "has no node b"),
        ([str(tmp_path / "bad.pb")], "bad.pb is not a GraphDef"),
        ([str(tmp_path / "bad.pbtxt")], "bad.pbtxt is not a GraphDef"),
        ([str(tmp_path / "empty.pb")], "has no nodes"),
        ([str(tmp_path / "unknown.pbtxt")], "NoSuchOp"),
        ([str(tmp_path / "none.pb")], "none.pb does not exist"),
        ([str(tmp_path)], "is not a SavedModel"),
        ([str(tmp_path), "--place=x"], "is not REGEX=DEVICE"),
        ([str(tmp_path), "--place=x=ps"], "is not a device of a task"),
        ([str(tmp_path), "--place=(=/job:ps"], "unterminated"),
    ]
    told = subprocess.run(
        (
            *(sys.executable, "-c", SAVE_AND_ANALYZE, str(folder)),
            json.dumps([arguments for arguments, _ in calls]),
        ),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    answers = json.loads(told.stdout.splitlines()[-1])
    for (status, text), (arguments, expected) in zip(answers, calls, strict=True):
        assert expected in text, (arguments, text)
        assert (status == 0) == (expected == "float [10, 8]"), (arguments, text)


@pytest.mark.timeout(300)
def test_what_is_wrong_with_a_graph_is_said_before_the_plug_in_is_compiled(tmp_path: Path) -> None:
    nothing_built = {"FARWRITE_CACHE": str(tmp_path / "cache"), "CXX": "no-compiler"}
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff no graph")
    calls = [
        (["none.pb"], "none.pb does not exist; name a SavedModel"),
        (["bad.pb"], "bad.pb is not a GraphDef"),
        (["bad.pb", "--default-device=ps"], "'ps' is not a device of a task"),
    ]
    for arguments, expected in calls:
        told = analyze(*arguments, folder=tmp_path, **nothing_built)
        assert told.returncode in (1, 2)
        assert expected in told.stderr
        assert "compile" not in told.stderr
