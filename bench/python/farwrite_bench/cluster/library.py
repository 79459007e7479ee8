"""The benchmarks' own library for TensorFlow: what Farwrite is compared with inside TensorFlow.

It has the transport `RPC_OVER_FABRIC`, and an operation for emulated computation. Its sources are
in `bench/tensorflow`. It is compiled once for the installed TensorFlow, as the plug-in is, and may
be loaded beside the plug-in or without it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
from pathlib import Path
from typing import Any

from farwrite.plugin.library import Library, ensure_compiled

SOURCES = Path(__file__).parents[1] / "tensorflow_library"
LIBRARY = Library(SOURCES, "farwrite_bench_tensorflow.so", "benchmarks' TensorFlow library", "*.h")


def ensure_built() -> Path:
    """Return the library for the installed TensorFlow. Compile it at its first use.

    Raises
    ------
    FailedPrecondition, Unsupported
        If TensorFlow or a compiler is missing, the compiler failed, or this Farwrite does not
        support this TensorFlow.
    """
    return ensure_compiled(LIBRARY)


@functools.cache
def load() -> None:
    """Load the library into TensorFlow.

    Raises
    ------
    FailedPrecondition, Unsupported
        As `ensure_built`.
    """
    tf: Any = importlib.import_module("tensorflow")
    path = str(ensure_built())
    tf.load_library(path)
    _loaded.append(ctypes.CDLL(path))  # the same one, already loaded


def load_ops() -> Any:
    """Load the library into TensorFlow, and return the functions that add its operations.

    Raises
    ------
    FailedPrecondition, Unsupported
        As `ensure_built`.
    """
    load()
    tf: Any = importlib.import_module("tensorflow")
    return tf.load_op_library(str(ensure_built()))


_loaded: list[ctypes.CDLL] = []


def rpc_counters() -> dict[str, Any] | None:
    """Return what rpc-over-fabric counted in this process; None if no server of it runs here.

    ``requests`` counts RecvTensor requests that this process sent, ``served`` those that it
    answered, ``copies`` the passes of its processor over their tensors, ``bytes_received`` and
    ``bytes_sent`` the encoded tensors, and ``grpc_recv_tensor_calls`` those that it answered over
    gRPC. ``fabrics`` are the fabrics in use.
    """
    for library in _loaded:
        library.farwrite_bench_rpc_json.restype = ctypes.c_char_p
        counters: dict[str, Any] = json.loads(library.farwrite_bench_rpc_json())
        return counters or None
    return None
