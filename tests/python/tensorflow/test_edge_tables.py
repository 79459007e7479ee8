"""The table of edges: made of several processes', and shown in the page of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from farwrite.plugin.edges import Edge, merge, parse_edges
from farwrite.run.child import Run
from farwrite.run.page import SHOWN, html
from farwrite.run.report import as_json
from farwrite.run.summary import MAX_EDGES, Writer, read_summaries

PS, WORKER = "/job:ps/replica:0/task:0/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"


def made_up(number: int, **more: Any) -> Edge:
    edge = {
        "source": PS,
        "target": WORKER,
        "tensor": f"edge_{number}_<made>",
        "in_graph": True,
        "dtype": "float",
        "control": False,
        "shape": [None, 4],
        "pinned": None,
        "bound": None,
        "sizing": "dynamic",
        "max_bytes": 0,
        "producer": {"name": f"<made>_{number}", "op": "Mul"},
        "consumers": [{"name": "taker", "op": "Add"}],
        "more_consumers": 2,
        "ref": False,
        "variable": False,
        "ways": {"staged_foreign_memory": 2, "zero_copy": 1},
        "bytes": number,
        "last_dtype": "float",
        "last_shape": [2, 4],
        "varied": False,
        "broke_annotation": 0,
        "reason": "staged: because",
    }
    return parse_edges(json.dumps([{**edge, **more}]))[0]


def test_two_ends_make_one_row() -> None:
    received = made_up(7, ways={}, bytes=0, shape=None, sizing="unknown", reason="")
    for order in ([made_up(7)], [received]), ([received], [made_up(7)]):
        (edge,) = merge(order)
        assert edge["ways"] == {"staged_foreign_memory": 2, "zero_copy": 1}
        assert (edge["bytes"], edge["shape"], edge["sizing"]) == (7, [None, 4], "dynamic")
        assert edge["reason"] == "staged: because"


def test_the_report_shows_edges_by_bytes_and_folds_the_rest() -> None:
    edges = [made_up(number) for number in range(SHOWN + 5)]
    process = {
        "pid": 1,
        "arguments": [],
        "wall_seconds": 1.0,
        "peak_memory": 1,
        "socket_bytes_sent": 1,
        "socket_bytes_received": 1,
        "loaded": True,
        "reason": "",
        "stats": {},
        "description": {},
        "edges": edges,
        "edges_left_out": 3,
        "ended": True,
    }
    run = Run("farwrite", 1.0, 0, None, cast("Any", (process,)))
    text = html(["python", "<x>"], [run])
    shown, rest = text.split("<details>")
    assert shown.count("made&gt;_") == SHOWN
    assert rest.count("made&gt;_") == 5
    assert shown.index(f"made&gt;_{SHOWN + 4}<") < shown.index(f"made&gt;_{SHOWN + 3}<")
    assert "staged foreign memory 2, zero copy 1" in shown
    assert "staged: because" in shown and "taker and 2 more" in shown
    assert "float [?, 4], last [2, 4]" in shown
    assert "5 more edges" in rest and "3 more edges, with fewer bytes" in rest
    assert "<x>" not in text and "<made>" not in text
    assert as_json([], [run])["runs"][0]["edges"][0]["bytes"] == SHOWN + 4


def test_the_summary_of_a_process_keeps_the_edges_with_most_bytes(tmp_path: Path) -> None:
    file = tmp_path / "summary"
    writer = Writer(str(file))
    writer.write()
    (before,) = read_summaries(file)
    assert (before["edges"], before["edges_left_out"]) == ([], 0)
    writer.edges = lambda: [made_up(number) for number in range(MAX_EDGES + 2, 0, -1)]
    writer.write()
    (after,) = read_summaries(file)
    assert [edge["bytes"] for edge in after["edges"]] == list(range(MAX_EDGES + 2, 2, -1))
    assert after["edges_left_out"] == 2
