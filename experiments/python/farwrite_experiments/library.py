"""The experiments' own library for TensorFlow: what Farwrite is compared with inside TensorFlow.

It has the transport `RPC_OVER_FABRIC`, and an operation for emulated computation. Its sources are
in `experiments/tensorflow`. It is compiled once for the installed TensorFlow, as the plug-in is. It
may be loaded beside the plug-in or without it.
"""

from __future__ import annotations

import ctypes
import functools
import json
from pathlib import Path
from typing import Any

from farwrite.optional import import_optional
from farwrite.plugin.library import Library, ensure_compiled
from farwrite_bench.cluster import readings

SOURCES = Path(__file__).parent / "tensorflow"
LIBRARY = Library(
    SOURCES, "farwrite_experiments_tensorflow.so", "experiments' TensorFlow library", "*.h"
)
MODULE = "farwrite_experiments.loaded_library"
"""Loads it when it is imported."""


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
def load() -> Any:
    """Load the library into TensorFlow, and return the functions that add its operations.

    Raises
    ------
    ModuleNotFoundError
        If TensorFlow is not installed.
    FailedPrecondition, Unsupported
        As `ensure_built`.
    """
    tf = import_optional(
        "tensorflow", "farwrite_experiments", "pip install 'tensorflow-cpu==2.21.*'"
    )
    path = str(ensure_built())
    operations = tf.load_op_library(path)
    loaded = ctypes.CDLL(path)  # the same one, already loaded
    loaded.farwrite_experiments_rpc_json.restype = ctypes.c_char_p
    readings.COUNTED.append(lambda: _rpc_counters(loaded))
    return operations


def _rpc_counters(loaded: ctypes.CDLL) -> dict[str, Any] | None:
    """Return what rpc-over-fabric counted in this process; None if no server of it runs here.

    ``requests`` counts RecvTensor requests that this process sent, ``served`` those that it
    answered, ``copies`` the passes of its processor over their tensors, ``bytes_received`` and
    ``bytes_sent`` the encoded tensors, and ``grpc_recv_tensor_calls`` those that it answered over
    gRPC. ``fabrics`` are the fabrics in use.
    """
    counters: dict[str, Any] = json.loads(loaded.farwrite_experiments_rpc_json())
    return counters or None
