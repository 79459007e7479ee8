"""Finds the installed TensorFlow without importing it, because an import takes seconds."""

from __future__ import annotations

import contextlib
import importlib.util
import mmap
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from farwrite.errors import FailedPrecondition, Unsupported
from farwrite.plugin.record import Recorded, read_record

SUPPORTED = ("2.21",)
"""The supported TensorFlow minors; docs/reference/tensorflow.md has the support policy."""

_DISTRIBUTIONS = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "tensorflow-intel"),
    *("tensorflow-aarch64", "tf-nightly", "tf-nightly-cpu", "tf-nightly-gpu"),
)
LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
"""What the plug-in is linked with."""
INSTALL = "pip install 'tensorflow-cpu==2.21.*' (or tensorflow==2.21.*)"


class Wheel(NamedTuple):
    """An installed TensorFlow."""

    folder: Path
    """The package's folder, which contains the libraries and `include`."""
    version: str
    """The version as in pip, for example "2.21.0"."""

    @property
    def minor(self) -> str:
        """The minor version, which determines support, for example "2.21"."""
        return ".".join(self.version.split(".")[:2])

    @property
    def cxx11_abi(self) -> int:
        """The value of _GLIBCXX_USE_CXX11_ABI in the build of its libraries."""
        library = self.folder / "libtensorflow_framework.so.2"
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as image:
            return int(image.find(b"__cxx11") >= 0)

    def hashes(self) -> dict[str, str]:
        """Return the hashes of `LIBRARIES` that RECORD has of this TensorFlow.

        Where two distributions have written into one folder, the sizes of the files say whose
        they are. A library that no RECORD has with its size and a hash is left out.
        """
        found: dict[str, str] = {}
        for distribution in _tensorflows(self.folder.parent):
            found |= _hashes(distribution, self.folder)
        return found

    def why_unknown(self) -> str:
        """Return why `hashes` lacks a library; empty if it lacks none."""
        hashes = self.hashes()
        lacking = [name for name in LIBRARIES if name not in hashes]
        if not lacking:
            return ""
        site, what = self.folder.parent, " and ".join(lacking)
        rows = [_libraries(each).get(name) for each in _tensorflows(site) for name in lacking]
        listed = [row for row in rows if row is not None]
        if not listed:
            return f"no RECORD in {site} lists {what}"
        if not any(row.digest and row.size for row in listed):
            return f"RECORD in {site} has no hash or no size of {what}"
        return f"{what} changed after the installation"


def _libraries(distribution: Distribution) -> dict[str, Recorded]:
    """Return what RECORD says of those `LIBRARIES` that it lists."""
    paths = {f"tensorflow/{name}": name for name in LIBRARIES}
    return {paths[path]: row for path, row in read_record(distribution, paths).items()}


def _hashes(distribution: Distribution, folder: Path) -> dict[str, str]:
    """Return the hashes of those `LIBRARIES` that still have the size in RECORD."""
    found = {}
    for name, row in _libraries(distribution).items():
        file = folder / name
        if row.digest and file.exists() and row.size == str(file.stat().st_size):
            found[name] = row.digest
    return found


def _tensorflows(site: Path) -> list[Distribution]:
    """Return the TensorFlows of a site-packages: by their names, else by the files they list."""
    path = [str(site)]
    named = [each for name in _DISTRIBUTIONS for each in distributions(name=name, path=path)]
    found = [each for each in named if _version(each)]
    return found or [
        each for each in distributions(path=path) if _version(each) and _libraries(each)
    ]


def _version(distribution: Distribution) -> str:
    """Return the version, or nothing of what a removed distribution left behind."""
    with contextlib.suppress(OSError, UnicodeError):  # Python 3.15 raises where others return none
        facts = distribution.metadata
        return facts["Version"] if facts and "Version" in facts else ""
    return ""


def _find_spec() -> ModuleSpec | None:
    try:
        return importlib.util.find_spec("tensorflow")
    except ValueError:  # a module that a test has put into its place
        return None


def find_wheel() -> Wheel:
    """Find the TensorFlow that ``import tensorflow`` would import.

    Raises
    ------
    FailedPrecondition
        If no TensorFlow is installed by pip. The message gives the command that installs one.
    """
    spec = _find_spec()
    if spec is None or spec.origin is None:
        raise FailedPrecondition(
            f"TensorFlow plug-in: this Python has no TensorFlow; install it: {INSTALL}"
        )
    folder = Path(spec.origin).parent
    found = _tensorflows(folder.parent)
    if not found:
        raise FailedPrecondition(
            f"TensorFlow plug-in: the TensorFlow in {folder} was not installed by pip, so its"
            f" version is unknown; install it: {INSTALL}"
        )
    if len({_version(each) for each in found}) > 1:
        # One of them has overwritten the other's files, or was removed by halves.
        found.sort(key=lambda each: len(_hashes(each, folder)), reverse=True)
    return Wheel(folder, _version(found[0]))


def require_supported(wheel: Wheel) -> None:
    """Check that Farwrite supports this TensorFlow.

    Raises
    ------
    Unsupported
        If the minor version is not in `SUPPORTED`, or headers or libraries are missing.
    """
    if wheel.minor not in SUPPORTED:
        raise Unsupported(
            f"TensorFlow plug-in: TensorFlow {wheel.version} is installed, and this Farwrite"
            f" supports {', '.join(SUPPORTED)} only, because the plug-in depends on that version's"
            f" internals (docs/reference/tensorflow.md, Support policy); install it: {INSTALL}"
        )
    needed = (*LIBRARIES, "include/tensorflow")
    missing = [name for name in needed if not (wheel.folder / name).exists()]
    if missing:
        raise Unsupported(
            f"TensorFlow plug-in: {wheel.folder} lacks {', '.join(missing)}, so it is not the"
            f" pip wheel; install that: {INSTALL}"
        )
