"""What carries tensors between the tasks of a cluster."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field

from farwrite.errors import FailedPrecondition

STOCK_PROTOCOL = "grpc"


@dataclass(frozen=True)
class Transport:
    """One way for tensors to travel."""

    key: str
    name: str
    """For people."""
    protocol: str
    """What TensorFlow calls it: a server's protocol, a cluster resolver's rpc_layer."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def stock(self) -> bool:
        """Whether TensorFlow does this by itself."""
        return self.protocol == STOCK_PROTOCOL


GRPC = Transport("grpc", "gRPC (stock)", STOCK_PROTOCOL)
FARWRITE = Transport("farwrite", "Farwrite", "grpc+farwrite", {"FARWRITE_TF_ALLOCATION": "unified"})
STAGED = Transport("staged", "Farwrite, staged", "grpc+farwrite", {"FARWRITE_TF_ALLOCATION": "off"})


def load_plugin(transport: Transport) -> None:
    """Load Farwrite's plug-in if `transport` needs it. Call before TensorFlow does anything."""
    if not transport.stock:
        importlib.import_module("farwrite.tensorflow")


def require(what: str, *modules: str) -> None:
    """Check that `modules` can be imported, without importing them.

    Raises
    ------
    FailedPrecondition
        If one is missing; says how to install it.
    """
    packages = {"tensorflow": "'tensorflow-cpu==2.21.*'", "sklearn": "scikit-learn"}
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise FailedPrecondition(
            f"{what} needs {' and '.join(missing)}, not installed here; install with:"
            f" pip install {' '.join(packages[name] for name in missing)}"
        )
