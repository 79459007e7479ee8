"""Reads saved graphs of TensorFlow without running them. Imports TensorFlow."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farwrite.errors import InvalidArgument, NotFound
from farwrite.optional import import_optional
from farwrite.plugin.wheel import INSTALL

_WHO = "farwrite tensorflow analyze"

tf: Any = import_optional("tensorflow", _WHO, INSTALL)
_saved_model: Any = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2")
_text_format: Any = importlib.import_module("google.protobuf.text_format")
_message: Any = importlib.import_module("google.protobuf.message")


def load(path: Path, fetch: Sequence[str], signature: str) -> Any:
    """Return the GraphDef in `path`, or the part of it that a fetch of `fetch` runs.

    Raises
    ------
    NotFound
        If a node of `fetch` or the signature is missing, or the folder has no SavedModel.
    InvalidArgument
        If the file is not a graph.
    """
    if path.is_dir():
        meta = _saved_meta_graph(path)
        graph = meta.graph_def
        fetch = fetch or _outputs(meta, signature, path)
    elif path.name.endswith((".meta", ".meta.pbtxt")):
        graph = _read(path, tf.compat.v1.MetaGraphDef()).graph_def
    else:
        graph = _read(path, tf.compat.v1.GraphDef())
    if not graph.node:
        raise InvalidArgument(
            f"{_WHO}: {path} has no nodes; give a SavedModel folder, a MetaGraph (.meta) or a"
            " GraphDef (.pb, .pbtxt)"
        )
    if not fetch:
        return graph
    names = [name.split(":", 1)[0].removeprefix("^") for name in fetch]
    there = {node.name for node in graph.node}
    absent = [name for name in names if name not in there]
    if absent:
        raise NotFound(f"{_WHO}: {path} has no node {', '.join(absent)}")
    return _part(graph, names)


def parse(serialized: bytes) -> Any:
    """Parse a serialized GraphDef."""
    return tf.compat.v1.GraphDef.FromString(serialized)


def _saved_meta_graph(folder: Path) -> Any:
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        if (folder / name).exists():
            model = _read(folder / name, _saved_model.SavedModel())
            if model.meta_graphs:
                return model.meta_graphs[0]
            raise InvalidArgument(f"{_WHO}: {folder / name} has no graph")
    raise NotFound(f"{_WHO}: {folder} is not a SavedModel: it has no saved_model.pb")


def _outputs(meta: Any, signature: str, folder: Path) -> list[str]:
    if signature not in meta.signature_def:
        known = ", ".join(sorted(meta.signature_def)) or "none"
        raise NotFound(
            f"{_WHO}: {folder} has no signature {signature}; the signatures are: {known}"
        )
    return [output.name for output in meta.signature_def[signature].outputs.values()]


def _read(path: Path, message: Any) -> Any:
    try:
        raw = path.read_bytes()
        if path.suffix == ".pbtxt":
            return _text_format.Parse(raw.decode(), message)
        message.ParseFromString(raw)
    except (_message.DecodeError, _text_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"{_WHO}: {path} is not a {type(message).__name__}: {str(error)[:200]}"
        ) from error
    return message


def _part(graph: Any, names: Sequence[str]) -> Any:
    nodes = {node.name: node for node in graph.node}
    needed: set[str] = set()
    queue = list(names)
    while queue:
        name = queue.pop()
        if name in needed or name not in nodes:
            continue
        needed.add(name)
        queue += [source.removeprefix("^").split(":", 1)[0] for source in nodes[name].input]
    part = type(graph)()
    part.CopyFrom(graph)
    del part.node[:]
    part.node.extend(node for node in graph.node if node.name in needed)
    return part
