"""Finds the component that carries gRPC, and checks that it is for the Farwrite that is installed.

`make grpc` puts it into Farwrite's own package. The distribution farwrite-grpc brings it compiled.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import farwrite
from farwrite.errors import FailedPrecondition, NotFound
from farwrite.info import version

DISTRIBUTION = "farwrite-grpc"
PACKAGE = "farwrite_grpc"
PRELOADED = "libfarwrite_grpc.so"
"""What stands in front of gRPC's library."""
LIBRARIES = (PRELOADED, "libfarwrite_grpc_1_51.so")
OWN = Path(farwrite.__file__).parent
_BUILT_FOR = re.compile(rb"farwrite-grpc: C ABI (\d+)\0")
"""A constant of src/grpc/interpose.cc."""


def find_component() -> Path:
    """Return the folder of the component: Farwrite's own package, else farwrite-grpc's.

    Raises
    ------
    NotFound
        If no component is installed.
    FailedPrecondition
        If the one that is found was built for another Farwrite, or is damaged. A program would not
        load it.
    """
    if any((OWN / name).exists() for name in LIBRARIES):
        if misfit := _misfit(OWN):
            raise FailedPrecondition(
                f"the component for gRPC in {OWN} {misfit}; in a checkout of this Farwrite type:"
                f" make grpc; or delete libfarwrite_grpc*.so in that folder, and {_install()}"
            )
        return OWN
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise NotFound(
            f"the component for gRPC is not installed; install {DISTRIBUTION}, or in a checkout of"
            " Farwrite type: make grpc"
        )
    folder = Path(spec.origin).parent
    if misfit := _misfit(folder):
        raise FailedPrecondition(f"the {DISTRIBUTION} in {folder} {misfit}; {_install()}")
    if not _beside_farwrite(folder):
        raise FailedPrecondition(
            f"the {DISTRIBUTION} in {folder} does not lie beside the Farwrite in {OWN}, whose"
            " library it takes; install both into one environment"
        )
    return folder


def _misfit(folder: Path) -> str:
    for name in LIBRARIES:
        if not (folder / name).exists():
            return f"is damaged, as it has no {name}"
    found = _BUILT_FOR.search((folder / PRELOADED).read_bytes())
    here = c_abi()
    if found is None:
        return f"was built for an older Farwrite than the installed {version()} of C ABI {here}"
    built_for = int(found[1])
    if built_for != here:
        return (
            f"needs C ABI {built_for} of Farwrite, and the installed Farwrite {version()} has C ABI"
            f" {here}"
        )
    return ""


def _install() -> str:
    return (
        "install the one of the same release: pip install --force-reinstall --no-deps"
        f" {PACKAGE}-{version()}-*.whl"
    )


def c_abi() -> int:
    """Return the version of the C ABI that the installed library has."""
    import ctypes  # a command that runs no gRPC program has no use for it

    return int(ctypes.CDLL(str(OWN / "libfarwrite.so")).fw_abi_version())


def _beside_farwrite(folder: Path) -> bool:
    beside = folder.parent / "farwrite"
    return beside.exists() and beside.samefile(OWN)
