"""``farwrite tensorflow analyze``: lists the edges between tasks of a saved graph."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from farwrite.errors import FailedPrecondition, InvalidArgument, NotFound, PermissionDenied
from farwrite.plugin.edges import Edge, edges_table, sums, task_of
from farwrite.plugin.wheel import find_wheel, require_supported
from farwrite.units import format_size

SHOWN_NODES = 8


def run(arguments: argparse.Namespace) -> int:
    """Print the table, and write the JSON file if there is one."""
    edges = analyze(
        arguments.model,
        place=arguments.place,
        default_device=arguments.default_device,
        fetch=arguments.fetch,
        signature=arguments.signature,
    )
    print(edges_table(edges))
    print()
    for sizing, count, size in sums(edges):
        known = f", {format_size(size)} a step" if sizing in ("static", "bounded") else ""
        at_most = " at most" if sizing == "bounded" else ""
        print(f"{sizing:<8} {count:>6} edge{'' if count == 1 else 's'}{known}{at_most}")
    if arguments.json is not None:
        try:
            arguments.json.write_text(json.dumps(edges, indent=2) + "\n")
        except OSError as error:
            raise PermissionDenied(
                f"farwrite tensorflow analyze: cannot write {arguments.json}: {error.strerror};"
                " name another file"
            ) from error
    return 0


def analyze(
    model: Path,
    *,
    place: Sequence[tuple[re.Pattern[str], str]] = (),
    default_device: str | None = None,
    fetch: Sequence[str] = (),
    signature: str = "serving_default",
) -> list[Edge]:
    """Return the edges between tasks of a saved graph.

    Raises
    ------
    NotFound, InvalidArgument
        If `model`, a fetched node or the signature is missing, or `model` is not a graph.
    Unsupported
        If Farwrite does not support this TensorFlow.
    FailedPrecondition
        If TensorFlow is missing, a node has no device, or all nodes are in one task.
    """
    # What may be wrong is checked before TensorFlow is imported, which takes seconds, and the graph
    # is read before the plug-in is, which may be compiled first.
    wheel = find_wheel()
    if default_device is not None:
        default_device = _device(default_device)
    if not model.exists():
        raise NotFound(
            f"farwrite tensorflow analyze: {model} does not exist; name a SavedModel's folder, a"
            " MetaGraph (.meta) or a GraphDef (.pb, .pbtxt)"
        )
    require_supported(wheel)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before TensorFlow is imported
    from farwrite.plugin import saved_graph

    graph = saved_graph.load(model, fetch, signature)
    import farwrite.tensorflow as plugin

    graph = saved_graph.parse(plugin.lower_graph(graph.SerializeToString()))
    _place(graph, place, default_device)
    tasks = {task_of(node.device) for node in graph.node}
    if len(tasks) < 2:
        raise FailedPrecondition(
            f"farwrite tensorflow analyze: all {len(graph.node)} nodes of {model} are in one task,"
            f" {', '.join(tasks)}, so no edge crosses tasks; place some with --place REGEX=DEVICE"
        )
    return plugin.analyze_graph(graph.SerializeToString())


def placement(text: str) -> tuple[re.Pattern[str], str]:
    """Read an argument of ``--place``, REGEX=DEVICE.

    Raises
    ------
    ArgumentTypeError
        If it is not one.
    """
    pattern, equals, device = text.rpartition("=")
    if not equals or not pattern:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not REGEX=DEVICE, for example dense.*=/job:ps/task:0"
        )
    try:
        return re.compile(pattern), _device(device)
    except (re.error, InvalidArgument) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def _device(text: str) -> str:
    """Complete a device's name: "/job:ps/task:0" names its first CPU."""
    found = re.fullmatch(
        r"/job:([a-zA-Z]\w*)(?:/replica:(\d+))?(?:/task:(\d+))?(?:/(?:device:)?([a-zA-Z]+):(\d+))?",
        text,
    )
    if found is None:
        raise InvalidArgument(
            f"farwrite tensorflow analyze: {text!r} is not a device of a task;"
            " write /job:NAME/task:NUMBER"
        )
    job, replica, task, kind, number = found.groups()
    device = f"{(kind or 'CPU').upper()}:{number or 0}"
    return f"/job:{job}/replica:{replica or 0}/task:{task or 0}/device:{device}"


def _place(
    graph: Any, place: Sequence[tuple[re.Pattern[str], str]], default_device: str | None
) -> None:
    nodes = {node.name: node for node in graph.node}
    for node in graph.node:
        matching = (device for pattern, device in place if pattern.fullmatch(node.name))
        node.device = next(matching, node.device)
    found = {name: _decided(node, nodes) or default_device for name, node in nodes.items()}
    unplaced = [name for name, device in found.items() if not device]
    if unplaced:
        names = ", ".join(unplaced[:SHOWN_NODES])
        raise FailedPrecondition(
            f"farwrite tensorflow analyze: {len(unplaced)} of {len(nodes)} nodes have no"
            f" device: {names}{', ...' if len(unplaced) > SHOWN_NODES else ''}; place them with"
            " --place REGEX=DEVICE or --default-device DEVICE"
        )
    for name, device in found.items():
        nodes[name].device = _device(device or "")


def _decided(node: Any, nodes: Mapping[str, Any]) -> str:
    """Return the device of `node` or of the node it is colocated with, or an empty text."""
    seen = set()
    while not node.device and node.name not in seen:
        seen.add(node.name)
        node = nodes.get(_leader(node), node)
    device: str = node.device
    return device


def _leader(node: Any) -> str:
    for place in node.attr["_class"].list.s if "_class" in node.attr else ():
        if place.startswith(b"loc:@"):
            name: str = place.removeprefix(b"loc:@").decode()
            return name
    # What uses a variable is where the variable is. An Identity costs nothing where its input is.
    follows = node.op == "Identity" or "VariableOp" in node.op or node.op.startswith("Resource")
    return node.input[0].split(":", 1)[0] if follows and node.input else ""
