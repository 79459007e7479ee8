"""The edges between tasks, as Python types and as a text table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict, cast

from farwrite.units import format_size

Shape = list[int | None]
"""Sizes of the dimensions; None for an unknown size."""

COPIES = (
    "staged_foreign_memory",
    "staged_received",
    "staged_unaligned",
    "staged_device",
    "snapshot",
)
"""The ways that copy a tensor once before it is sent."""


class Node(TypedDict):
    """A node of a graph."""

    name: str
    op: str
    """Empty if the op is not in a graph of this process."""


class Edge(TypedDict):
    """One edge between two tasks, as this process has recorded it.

    Only the sender counts tensors; a receiver has the facts of the graph. An edge in no graph, such
    as an eager copy, has no producer, and its `sizing` is "unknown".
    """

    source: str
    """The producer's device."""
    target: str
    """The consumers' device."""
    source_task: str
    """The task of `source`, for example "ps:0"."""
    target_task: str
    """The task of `target`."""
    tensor: str
    """The name in TensorFlow's rendezvous. It identifies the edge, with source and target."""
    in_graph: bool
    """Whether a graph names the edge. Otherwise the edge was only observed."""
    dtype: str
    control: bool
    """Whether it is a control edge, which carries no tensor."""
    shape: Shape | None
    """The shape that TensorFlow infers; None if the rank is unknown."""
    pinned: Shape | None
    """The shape given to `farwrite.tensorflow.pin_shape`."""
    bound: Shape | None
    """The shape given to `farwrite.tensorflow.bound_shape`."""
    sizing: str
    """The kind: "static", "bounded", "dynamic", or "unknown" for an edge in no graph."""
    max_bytes: int
    """Bytes of the largest tensor, if the edge is static or bounded."""
    producer: Node
    consumers: list[Node]
    more_consumers: int
    """Number of consumers not in `consumers`."""
    ref: bool
    """Whether the tensor may be the memory of a ref variable."""
    variable: bool
    """Whether the producer reads a variable."""
    ways: dict[str, int]
    """Number of tensors sent in each way."""
    bytes: int
    """Bytes sent."""
    last_dtype: str
    """Element type of the last tensor sent."""
    last_shape: Shape | None
    """Shape of the last tensor sent; None before the first."""
    varied: bool
    """Whether any two tensors differed in shape or dtype."""
    broke_annotation: int
    """Number of tensors whose shape broke the program's annotation."""
    reason: str
    """Why tensors were copied or left to gRPC; empty if none was."""


def parse_edges(text: str) -> list[Edge]:
    """Parse the plug-in's JSON. The edge with the most bytes comes first."""
    edges = [
        {**edge, "source_task": task_of(edge["source"]), "target_task": task_of(edge["target"])}
        for edge in json.loads(text)
    ]
    return by_bytes(cast("list[Edge]", edges))


def by_bytes(edges: Iterable[Edge]) -> list[Edge]:
    """Sort edges by the bytes they moved, then by the bytes that one tensor can have."""
    return sorted(edges, key=lambda e: (-e["bytes"], -e["max_bytes"], e["source"], e["tensor"]))


def task_of(device: str) -> str:
    """Shorten "/job:ps/replica:0/task:0/device:CPU:0" to "ps:0"."""
    parts = dict(part.split(":", 1) for part in device.split("/") if ":" in part)
    return f"{parts['job']}:{parts.get('task', '0')}" if "job" in parts else device


def merge(processes: Iterable[Sequence[Edge]]) -> list[Edge]:
    """Merge the edges of several processes into one list.

    Counts are added, because only senders have them. Every other field comes from the first process
    that has it.
    """
    merged: dict[tuple[str, str, str], dict[str, Any]] = {}
    for edge in (edge for edges in processes for edge in edges):
        known = merged.setdefault((edge["source"], edge["target"], edge["tensor"]), {})
        for key, value in edge.items():
            if key == "ways":
                known[key] = dict(Counter(known.get(key, {})) + Counter(edge["ways"]))
            elif key in ("bytes", "broke_annotation"):
                known[key] = known.get(key, 0) + value
            elif key == "max_bytes":
                known[key] = max(known.get(key, 0), edge["max_bytes"])
            elif key == "producer" and known.get(key, {}).get("op"):
                continue
            elif not known.get(key) or known[key] == "unknown":
                known[key] = value
    return by_bytes(cast("list[Edge]", list(merged.values())))


def shape_text(shape: Shape | None) -> str:
    """Write a shape as text: "[?, 4]", or "?" if the rank is unknown."""
    if shape is None:
        return "?"
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


HEADERS = ("from", "to", "tensor", "consumer", "shape", "sizing", "sent", "bytes", "ways", "why")


def cells(edge: Edge) -> tuple[str, ...]:
    """Return the cells of one edge, in the order of `HEADERS`."""
    producer = edge["producer"]["name"] or edge["tensor"]
    consumers = [node["name"] for node in edge["consumers"]]
    others = len(consumers) - 1 + edge["more_consumers"]
    ways = ", ".join(
        f"{name.replace('_', ' ')} {times}" for name, times in sorted(edge["ways"].items())
    )
    return (
        edge["source_task"],
        edge["target_task"],
        producer,
        (consumers[0] if consumers else "") + (f" and {others} more" if others > 0 else ""),
        _shape_cell(edge),
        _sizing_cell(edge),
        str(sum(edge["ways"].values())),
        format_size(edge["bytes"]),
        ways,
        _why(edge),
    )


def edges_table(edges: Sequence[Edge]) -> str:
    """Return edges as a text table."""
    if not edges:
        return "no edges between tasks"
    rows = [HEADERS, *(cells(edge) for edge in edges)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADERS))]
    return "\n".join(_line(row, widths) for row in rows)


def sums(edges: Iterable[Edge]) -> Iterator[tuple[str, int, int]]:
    """Yield each sizing, its number of edges, and the most bytes that they move in a step.

    Each edge counts one tensor. An edge in a loop moves more.
    """
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for edge in edges:
        counts[edge["sizing"]] += 1
        sizes[edge["sizing"]] += edge["max_bytes"]
    for sizing in ("static", "bounded", "dynamic", "unknown"):
        if counts[sizing]:
            yield sizing, counts[sizing], sizes[sizing]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _shape_cell(edge: Edge) -> str:
    if edge["control"]:
        return "(control)"
    if not edge["in_graph"]:
        return f"{edge['last_dtype']} {shape_text(edge['last_shape'])}"
    text = f"{edge['dtype']} {shape_text(edge['shape'])}"
    if edge["last_shape"] is not None and (edge["shape"] is None or None in edge["shape"]):
        text += f", last {shape_text(edge['last_shape'])}"
    return text


def _sizing_cell(edge: Edge) -> str:
    if not edge["in_graph"]:
        return "observed, varied" if edge["varied"] else "observed"
    if edge["pinned"] is not None:
        return f"{edge['sizing']}, pinned {shape_text(edge['pinned'])}"
    if edge["bound"] is not None:
        return f"{edge['sizing']}, at most {shape_text(edge['bound'])}"
    return edge["sizing"]


def _why(edge: Edge) -> str:
    broke = edge["broke_annotation"]
    told = [edge["reason"], f"broke its annotation {broke} times" if broke else ""]
    return "; ".join(filter(None, told))
