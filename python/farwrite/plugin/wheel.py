"""Finds the installed TensorFlow without importing it, because an import takes seconds."""

from __future__ import annotations

import csv
import importlib.util
import mmap
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

from farwrite.errors import FailedPrecondition, Unsupported

SUPPORTED = ("2.21",)
"""The supported TensorFlow minors; docs/reference/tensorflow.md has the support policy."""

_DISTRIBUTIONS = re.compile(
    r"(tensorflow(-cpu|-gpu|-rocm|-intel|-aarch64)?|tf-nightly(-cpu|-gpu)?)"
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
        """Return the hashes of `LIBRARIES` that pip's RECORD of this TensorFlow has.

        Where two distributions have written into one folder, the sizes of the files say whose
        they are. A library that RECORD does not have, or has with another size, is left out.
        """
        found = {}
        sizes = {f"tensorflow/{name}": (self.folder / name).stat().st_size for name in LIBRARIES}
        for distribution in _tensorflows(self.folder.parent):
            for row in csv.reader((distribution.read_text("RECORD") or "").splitlines()):
                if len(row) == 3 and row[2] == str(sizes.get(row[0])):
                    found[Path(row[0]).name] = row[1]
        return found


def _tensorflows(site: Path) -> Iterator[Distribution]:
    for distribution in distributions(path=[str(site)]):
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if _DISTRIBUTIONS.fullmatch(name):
            yield distribution


def find_wheel() -> Wheel:
    """Find the TensorFlow that ``import tensorflow`` would import.

    Raises
    ------
    FailedPrecondition
        If no TensorFlow is installed by pip. The message gives the command that installs one.
    """
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        raise FailedPrecondition(
            f"TensorFlow plug-in: this Python has no TensorFlow; install it: {INSTALL}"
        )
    folder = Path(spec.origin).parent
    for distribution in _tensorflows(folder.parent):
        return Wheel(folder, distribution.version)
    raise FailedPrecondition(
        f"TensorFlow plug-in: the TensorFlow in {folder} was not installed by pip, so its version"
        f" is unknown; install it: {INSTALL}"
    )


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
