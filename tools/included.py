"""Finds what of others a library that is compiled for TensorFlow has in it by their headers.

TensorFlow's wheel has the headers of what TensorFlow is made of. Those that the compiler reads show
what of it is in the library. The headers say their versions and licences, and the wheel has the
texts of the licences. The headers of the C and C++ libraries are left out: their licences ask
nothing of what is compiled with them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from farwrite.plugin.build import write_batches
from farwrite.plugin.compiler import Compiler
from farwrite.plugin.recipe import Recipe

NOTICES = "THIRD_PARTY_NOTICES.txt"
"""In TensorFlow's package: a section for each of its components, between lines of hyphens."""

INCLUDED = "included"
"""The key of the components in the prebuilt.json of a wheel."""


class Origin(NamedTuple):
    """A component of TensorFlow, and where its headers are."""

    name: str
    folders: tuple[str, ...]
    """Below TensorFlow's `include`."""
    version: tuple[str, str] | None = None
    """A header, and a pattern whose groups are the parts of the version in it."""
    section: str = ""
    """The heading in TensorFlow's notices; without one the licence is that of Farwrite itself."""


ORIGINS = (
    Origin("tensorflow", ("tensorflow/", "tsl/", "xla/")),
    Origin(
        "abseil-cpp",
        ("absl/",),
        ("absl/base/config.h", r"LTS_RELEASE_VERSION (\d+)\n.*LTS_RELEASE_PATCH_LEVEL (\d+)"),
    ),
    Origin(
        "eigen",
        ("Eigen/", "unsupported/Eigen/"),
        ("Eigen/Version", r'EIGEN_VERSION_STRING "(.+)"'),
        "Eigen",
    ),
    Origin("farmhash", ("external/farmhash_archive/",), None, "Farmhash"),
    Origin(
        "grpc",
        ("external/com_github_grpc_grpc/",),
        (
            "external/com_github_grpc_grpc/include/grpcpp/version_info.h",
            r'GRPC_CPP_VERSION_STRING "(.+)"',
        ),
        "grpc",
    ),
    Origin("ml_dtypes", ("ml_dtypes/",), None, "ml_dtypes"),
    Origin(
        "protobuf",
        ("google/protobuf/",),
        ("google/protobuf/stubs/common.h", r"GOOGLE_PROTOBUF_VERSION (\d+)(\d{3})(\d{3})\n"),
        "protobuf",
    ),
)
LICENCES = {
    r"Apache License": "Apache-2.0",
    r"Mozilla\s+(//\s+)?Public License": "MPL-2.0",
    r"Redistribution and use in source and binary|BSD-style\s+(//\s+)?license": "BSD-3-Clause",
    r"Permission is hereby granted, free of charge": "MIT",
}
"""What a header says, and the licence's name in SPDX."""


class Included(NamedTuple):
    """A component that a library has in it."""

    name: str
    version: str
    """Empty where the headers do not say it."""
    licence: str
    """An expression of SPDX."""


def headers_read(plan: Recipe, compiler: Compiler) -> set[str]:
    """Return the headers of TensorFlow that a library's sources include, below `include`."""
    root = f"{plan.wheel.folder / 'include'}/"
    with tempfile.TemporaryDirectory() as name:
        (whole,) = write_batches(plan.sources, 1, Path(name))
        command = (*compiler.command, *plan.compile_flags, "-M", str(whole))
        rule = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    words = re.split(r"(?<!\\)\s+", rule.replace("\\\n", " "))
    paths = (word.replace("\\ ", " ") for word in words)
    headers = {path.removeprefix(root) for path in paths if path.startswith(root)}
    return headers or sys.exit(f"included: {whole} includes no header below {root}")


def find_included(headers: Iterable[str], tensorflow: Path, version: str) -> list[Included]:
    """Return the components whose headers these are, by their names.

    Parameters
    ----------
    headers : iterable of str
        Paths below `include` in TensorFlow's package.
    tensorflow : Path
        That package.
    version : str
        Its version.
    """
    root = tensorflow / "include"
    licences: dict[str, set[str]] = {}
    for header in headers:
        (origin,) = [one for one in ORIGINS if header.startswith(one.folders)] or sys.exit(
            f"included: no component of TensorFlow is known for {header}; add it to ORIGINS"
        )
        licences.setdefault(origin.name, set()).update(_licences(root / header))
    found = []
    for origin in ORIGINS:
        if origin.name not in licences:
            continue
        said = sorted(licences[origin.name])
        if not said:
            sys.exit(f"included: no header of {origin.name} names its licence")
        own = version if origin.name == "tensorflow" else _version(root, origin)
        found.append(Included(origin.name, own, " AND ".join(said)))
    return found


def _licences(header: Path) -> set[str]:
    # A licence is named at the beginning. Some headers name none, as their component has one.
    text = header.read_text(errors="replace")[:4000]
    return {name for pattern, name in LICENCES.items() if re.search(pattern, text)}


def _version(root: Path, origin: Origin) -> str:
    if origin.version is None:
        return ""
    header, pattern = origin.version
    found = re.search(pattern, (root / header).read_text())
    if found is None:
        sys.exit(f"included: {header} has no version of {origin.name} as it had")
    return ".".join(part.lstrip("0") or "0" for part in found.groups())


def notice(included: Iterable[Included], tensorflow: Path, version: str) -> str:
    """Return what the licences of these components ask to be told to those who get the library."""
    sections = _sections((tensorflow / NOTICES).read_text())
    chapters = [
        "The plug-in has code of these components in it, since TensorFlow's headers have it. The\n"
        f"source is in the wheels tensorflow and tensorflow-cpu {version} on PyPI, in the folder\n"
        "tensorflow/include. The licence of those that have no text here is in LICENSE."
    ]
    for one in included:
        (origin,) = (each for each in ORIGINS if each.name == one.name)
        chapter = f"{one.name} {one.version}".strip() + f": {one.licence}"
        if origin.section:
            chapter += f"\n\n{sections[origin.section]}"
        elif one.licence != "Apache-2.0":
            sys.exit(f"included: {NOTICES} has no text for {one.name}, {one.licence}")
        chapters.append(chapter)
    return f"\n\n{'=' * 80}\n".join(chapters) + "\n"


def _sections(notices: str) -> dict[str, str]:
    ruler = "-" * 80 + "\n"
    parts = (part.strip("\n") for part in f"\n{notices}".split(f"\n{ruler}"))
    heads = (part.partition("\n") for part in parts if part.startswith("== "))
    return {head.removeprefix("== "): text.strip() for head, _, text in heads}
