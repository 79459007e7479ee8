"""The functions of TensorFlow 2.21 through which a program sets its protocol.

Every way to start a server or join a cluster calls one of four functions:

- `server_lib._make_server_def`: every `tf.distribute.Server` and `tf.compat.v1.train.Server`.
- `Context.set_server_def` and `update_server_def`: `tf.config.experimental_connect_to_cluster`
  and `_to_host`, and therefore ParameterServerStrategy with any ClusterResolver.
- `Context.enable_collective_ops`: MultiWorkerMirroredStrategy.

The wrappers replace "grpc" by "grpc+farwrite" there. Resolvers, their `rpc_layer` and session
targets keep "grpc". TensorFlow makes addresses from them ("grpc://host:port"), and a Farwrite
server answers at these addresses like a stock server. A program that prints them prints the same.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

STOCK = "grpc"
FARWRITE = "grpc+farwrite"


def wrap() -> None:
    """Wrap the four functions. Call once, before the program starts a server."""
    server_lib: Any = importlib.import_module("tensorflow.python.training.server_lib")
    context: Any = importlib.import_module("tensorflow.python.eager.context")
    server_lib._make_server_def = _of_result(server_lib._make_server_def)
    for name in ("set_server_def", "update_server_def", "enable_collective_ops"):
        setattr(context.Context, name, _of_argument(getattr(context.Context, name)))


def _rewritten(server_def: Any) -> Any:
    # A copy: the program may hold the one it passed, and compare or print it.
    if not server_def or server_def.protocol != STOCK:
        return server_def
    changed = type(server_def)()
    changed.CopyFrom(server_def)
    changed.protocol = FARWRITE
    return changed


def _of_result(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def make_server_def(*arguments: Any, **named: Any) -> Any:
        return _rewritten(real(*arguments, **named))

    return make_server_def


def _of_argument(real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def with_server_def(self: Any, server_def: Any, *arguments: Any, **named: Any) -> Any:
        return real(self, _rewritten(server_def), *arguments, **named)

    return with_server_def
