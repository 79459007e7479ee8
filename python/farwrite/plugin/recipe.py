"""The recipe that compiles a library for TensorFlow, and the name of the build in the cache."""

from __future__ import annotations

import hashlib
import os
import shlex
from pathlib import Path
from typing import NamedTuple

import farwrite
from farwrite.info import version
from farwrite.plugin import cache
from farwrite.plugin.compiler import Compiler
from farwrite.plugin.wheel import Wheel

PACKAGE = Path(farwrite.__file__).parent
TENSORFLOW_INCLUDES = (
    "include",
    "include/external/farmhash_archive/src",
    "include/external/com_github_grpc_grpc/include",
    "include/external/com_github_grpc_grpc",
)


def source_folder() -> Path:
    """Return the folder of the plug-in's C++ sources, which the package installs."""
    return PACKAGE / "tensorflow" / "src"


class Library(NamedTuple):
    """A folder of C++ sources, and the library that they become."""

    folder: Path
    name: str
    """The file name of the library."""
    what: str
    """The name in messages."""
    farwrite_headers: str
    """Glob pattern of the headers of Farwrite that the sources include."""


def plugin() -> Library:
    """Return the plug-in."""
    return Library(source_folder(), cache.LIBRARY, "TensorFlow plug-in", "c_*.h")


class Recipe(NamedTuple):
    """Sources and flags for one TensorFlow."""

    wheel: Wheel
    library: Library
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A short hash of the sources and flags, without the compiler."""
        flags = "\0".join((*self.compile_flags, *self.link_flags))
        return hashlib.sha256((flags + self.source_digest).encode()).hexdigest()[:12]

    @property
    def source_digest(self) -> str:
        """A hash of the sources and of Farwrite's headers alone."""
        state = hashlib.sha256()
        for file in (*self.sources, *self.headers):
            name = "/".join(file.parts[-2:])
            state.update(f"\0{name}\0".encode() + file.read_bytes())
        return state.hexdigest()

    def key(self, compiler: Compiler | None) -> str:
        """Return the name of the build's folder, or without a compiler a pattern for any."""
        abi = "*" if compiler is None else compiler.abi
        return (
            f"tensorflow-{self.wheel.version}-farwrite-{version()}-{abi}"
            f"-cxx11abi{self.wheel.cxx11_abi}-{self.digest}"
        )


def recipe(wheel: Wheel, library: Library | None = None) -> Recipe:
    """Return the recipe of `library` for `wheel`: without a library, the plug-in's.

    FARWRITE_CXXFLAGS adds flags, for debugging.
    """
    library = library or plugin()
    folder = library.folder
    major, minor, patch, suffix = _parts(wheel.version)
    compile_flags = (
        *("-std=c++17", "-fPIC", "-O2", "-DNDEBUG"),
        f"-D_GLIBCXX_USE_CXX11_ABI={wheel.cxx11_abi}",
        "-DEIGEN_MAX_ALIGN_BYTES=64",
        f'-DFARWRITE_TENSORFLOW_VERSION="{major}.{minor}.{patch}{suffix}"',
        # The headers leave these to the build since 2.21.
        *(f"-DTF_MAJOR_VERSION={major}", f"-DTF_MINOR_VERSION={minor}"),
        *(f"-DTF_PATCH_VERSION={patch}", f'-DTF_VERSION_SUFFIX="{suffix}"'),
        *(f"-I{folder}", f"-I{PACKAGE / 'include'}"),
        *(f"-isystem{wheel.folder / include}" for include in TENSORFLOW_INCLUDES),
        *shlex.split(os.environ.get("FARWRITE_CXXFLAGS", "")),
    )
    link_flags = (
        *("-shared", "-Wl,--as-needed", "-Wl,-z,relro"),
        *(f"-L{PACKAGE}", "-l:libfarwrite.so", f"-Wl,-rpath,{PACKAGE}"),
        *(f"-L{wheel.folder}", f"-Wl,-rpath,{wheel.folder}"),
        *("-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"),
    )
    headers = (*folder.rglob("*.h"), *(PACKAGE / "include").rglob(library.farwrite_headers))
    return Recipe(
        wheel,
        library,
        tuple(sorted(folder.rglob("*.cc"))),
        tuple(sorted(headers)),
        compile_flags,
        link_flags,
    )


def _parts(version: str) -> tuple[str, str, str, str]:
    # TensorFlow writes pip's "2.21.0rc1" as "2.21.0-rc1", and "2.21.0.dev20260101" as
    # "2.21.0-dev20260101". What stands behind a plus sign it writes or does not.
    major, minor, rest = (*version.partition("+")[0].split(".", 2), "0", "0")[:3]
    patch = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    suffix = rest[len(patch) :].lstrip(".")
    if suffix.startswith("post"):  # the same TensorFlow, packed again
        suffix = ""
    return major, minor, patch or "0", f"-{suffix}" if suffix else ""
