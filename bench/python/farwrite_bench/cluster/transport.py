"""The transports that carry tensors between the tasks of a cluster."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from farwrite.errors import FailedPrecondition

Cluster = Mapping[str, Sequence[str]]
"""The addresses of each job's servers."""
STOCK_PROTOCOL = "grpc"
PLUGIN = "farwrite.tensorflow"
"""The module that loads Farwrite's plug-in when it is imported."""
CONTROL = "FARWRITE_TF_CONTROL"
"""The option that lets Farwrite carry TensorFlow's control calls."""


def _none(_: Cluster) -> dict[str, str]:
    return {}


@dataclass(frozen=True)
class Transport:
    """One way to move tensors between tasks."""

    key: str
    name: str
    """The name in output."""
    protocol: str
    """TensorFlow's name of it: the protocol of a server, the rpc_layer of a cluster resolver."""
    environment: Mapping[str, str] = field(default_factory=dict)
    module: str | None = None
    """The module that loads it into TensorFlow when it is imported, or None."""
    encoded: bool = False
    """Whether tensors take TensorFlow's encoding, which ends at 2 GiB."""
    variables: Callable[[Cluster], dict[str, str]] = _none
    """Returns the variables of the environment that every task of a cluster needs."""

    @property
    def stock(self) -> bool:
        """Whether TensorFlow has this transport without the plug-in."""
        return self.protocol == STOCK_PROTOCOL

    @property
    def carries_control(self) -> bool:
        """Whether this transport carries control calls, and so counts those that it does not."""
        return self.environment.get(CONTROL) == "on"


GRPC = Transport("grpc", "gRPC (stock)", STOCK_PROTOCOL, encoded=True)
FARWRITE = Transport(
    "farwrite",
    "Farwrite",
    "grpc+farwrite",
    {"FARWRITE_TF_ALLOCATION": "unified", CONTROL: "on"},
    PLUGIN,
)
STAGED = Transport(
    "staged",
    "Farwrite, staged",
    "grpc+farwrite",
    {"FARWRITE_TF_ALLOCATION": "off", CONTROL: "on"},
    PLUGIN,
)


def forced(fabric: str | None) -> dict[str, str]:
    """Return the variables by which Farwrite uses this fabric; None leaves the choice to it."""
    return {} if fabric is None else {"FARWRITE_FABRICS": fabric}


def fabric_in_words(fabric: str | None) -> str:
    """Say which fabric Farwrite uses."""
    return f"fabric {fabric or 'chosen by Farwrite'}"


def load_plugin(transport: Transport) -> None:
    """Load what `transport` needs in this process. Call this before any use of TensorFlow."""
    if transport.module is not None:
        importlib.import_module(transport.module)


def require(what: str, *modules: str) -> None:
    """Check that `modules` can be imported, without importing them.

    Raises
    ------
    FailedPrecondition
        If a module is missing. The message has the command that installs it.
    """
    packages = {"tensorflow": "'tensorflow-cpu==2.21.*'", "sklearn": "scikit-learn"}
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise FailedPrecondition(
            f"{what} needs {' and '.join(missing)}, which is not installed; run"
            f" pip install {' '.join(packages[name] for name in missing)}"
        )
