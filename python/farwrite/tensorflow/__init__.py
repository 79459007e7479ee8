"""Sends the tensors of TensorFlow's distributed runtime over Farwrite.

Import the module, and give servers the protocol "grpc+farwrite".

>>> import farwrite.tensorflow
>>> server = tf.distribute.Server(cluster, "worker", 0, protocol=farwrite.tensorflow.PROTOCOL)

The import loads the plug-in, and compiles it at the first use on this machine. Import the module
before TensorFlow's first allocation. Tensors can be in registered memory only then; otherwise a
copy stages them.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from farwrite.errors import FailedPrecondition, InvalidArgument
from farwrite.metrics.endpoint import serve_from_environment
from farwrite.optional import import_optional
from farwrite.plugin import edges as edge_tables
from farwrite.plugin.build import ensure_built
from farwrite.plugin.edges import Edge, parse_edges
from farwrite.plugin.stats import Arena, Description, Link, Stats, parse_stats, prometheus_text
from farwrite.plugin.wheel import INSTALL
from farwrite.run.meter import METER
from farwrite.run.summary import writer
from farwrite.tensorflow.annotations import bound_shape, pin_shape

tf: Any = import_optional("tensorflow", "farwrite.tensorflow", INSTALL)

__all__ = [
    "PLUGIN",
    "PROTOCOL",
    "Arena",
    "Description",
    "Edge",
    "Link",
    "Stats",
    "analyze_graph",
    "bound_shape",
    "describe",
    "edges",
    "edges_table",
    "lower_graph",
    "pin_shape",
    "prometheus",
    "reset_stats",
    "socket_bytes",
    "stats",
]

PROTOCOL = "grpc+farwrite"
"""The protocol of servers and clusters that send tensors over Farwrite."""


def _load(path: Path) -> ctypes.CDLL:
    tf.load_library(str(path))
    library = ctypes.CDLL(str(path))  # the same one, already loaded
    library.farwrite_tf_stats_json.restype = ctypes.c_char_p
    library.farwrite_tf_edges_json.restype = ctypes.c_char_p
    library.farwrite_tf_describe_json.restype = ctypes.c_char_p
    library.farwrite_tf_device_metrics.restype = ctypes.c_char_p
    library.farwrite_tf_reset_stats.restype = None
    described = json.loads(library.farwrite_tf_describe_json())
    if described["error_code"] != "OK":
        is_setting = described["error_code"] == "INVALID_ARGUMENT"
        raise (InvalidArgument if is_setting else FailedPrecondition)(
            f"TensorFlow plug-in: {path} cannot be used in this process: {described['error']}"
        )
    return library


def stats() -> Stats:
    """Return the plug-in's counters in this process."""
    return parse_stats(_text(_library.farwrite_tf_stats_json))


def prometheus() -> str:
    """Return `stats` and the metrics of the plug-in's device, in the Prometheus text format.

    With FARWRITE_METRICS=host:port, the process serves the same text over HTTP.
    """
    return prometheus_text(stats()) + _text(_library.farwrite_tf_device_metrics)


def describe() -> Description:
    """Return the versions, the allocator in use, and the reason for it."""
    told: dict[str, Any] = json.loads(_text(_library.farwrite_tf_describe_json))
    return cast("Description", {"tensorflow_version": tf.__version__, **told})


def edges() -> list[Edge]:
    """Return the edges between tasks that this process recorded, the most bytes first.

    The counts start when the plug-in is loaded. Only the sender of a tensor counts it.
    """
    return parse_edges(_text(_library.farwrite_tf_edges_json))


def edges_table() -> str:
    """Return `edges` as a text table."""
    return edge_tables.edges_table(edges())


def lower_graph(graph: bytes) -> bytes:
    """Return a serialized GraphDef with its calls inlined and its branches and loops lowered.

    Raises
    ------
    InvalidArgument
        If `graph` is not a GraphDef, or has ops that are not registered.
    """
    return _graph_call(_library.farwrite_tf_lower_graph, graph)


def analyze_graph(graph: bytes) -> list[Edge]:
    """Return the edges between tasks of a lowered GraphDef whose nodes all have devices.

    Raises
    ------
    InvalidArgument
        As `lower_graph`.
    """
    return parse_edges(_graph_call(_library.farwrite_tf_analyze_graph, graph).decode())


def reset_stats() -> None:
    """Set the counters of `stats` to zero.

    Current values, such as `waiting_tensors` and `arena`, stay. The counts of `edges` also stay.
    """
    _library.farwrite_tf_reset_stats()


def socket_bytes() -> int:
    """Return the bytes this process sent and received over TCP. The result never decreases.

    A closed socket counts with the bytes that the last call before its close counted.
    """
    return sum(METER.look())


def _graph_call(function: Callable[..., int], graph: bytes) -> bytes:
    data, size = ctypes.c_void_p(), ctypes.c_uint64()
    failed = function(graph, ctypes.c_uint64(len(graph)), ctypes.byref(data), ctypes.byref(size))
    result = ctypes.string_at(data.value or 0, size.value)
    if failed:
        raise InvalidArgument(f"TensorFlow cannot read the graph: {result.decode()}")
    return result


def _text(function: Callable[[], bytes]) -> str:
    return function().decode()


def __dir__() -> list[str]:
    """List the interface alone."""
    return sorted(__all__)


class _Metrics:
    """The source of the metrics that the process serves."""

    def metrics(self) -> str:
        return prometheus()


PLUGIN = ensure_built()
"""Path of the loaded shared library."""
_library = _load(PLUGIN)

_metrics = _Metrics()
serve_from_environment(_metrics)

if (_summary := writer()) is not None:
    _summary.stats, _summary.describe, _summary.edges = stats, describe, edges
