"""A wheel compiled against the libraries of an older Debian, by this machine's GCC.

The wheels of farwrite-tensorflow and farwrite-grpc are built so: from the sources of a folder and
the libraries that are put into a copy of it. The Debian is unpacked, without root, below
.cache/roots (tools/fetch_debs.sh).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from build_wheels import NATIVE, ROOT
from farwrite.errors import FailedPrecondition
from farwrite.plugin.compiler import Compiler, find_compiler

MACHINE = f"{NATIVE}-linux-gnu"
VERSIONED = ("libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2")
"""The libraries of a system whose symbols have versions that a wheel may need."""


class Debian(NamedTuple):
    """A Debian: its name, the version of its GCC, and the platform of wheels that run on it."""

    suite: str
    gcc: int
    platform: str

    @property
    def root(self) -> Path:
        """The folder in which its packages are unpacked."""
        return ROOT / ".cache" / "roots" / self.suite

    @property
    def libraries(self) -> Path:
        """The folder of its libraries."""
        return self.root / "usr/lib" / MACHINE


DEBIAN_11 = Debian("bullseye", 10, f"manylinux_2_31_{NATIVE}")
DEBIAN_12 = Debian("bookworm", 12, f"manylinux_2_36_{NATIVE}")


def compiler_for(debian: Debian, *packages: str) -> Compiler:
    """Return this machine's GCC with the C and C++ libraries of a Debian, and fetch them.

    Parameters
    ----------
    packages : str
        What is unpacked besides, with what that needs.

    Raises
    ------
    FailedPrecondition
        If this machine has no GCC, or CXX names another compiler.
    """
    compiler = find_compiler()
    if compiler.family != "gcc":
        raise FailedPrecondition(f"{compiler} is no GCC; name a g++ in CXX")
    fetch = [ROOT / "tools/fetch_debs.sh", "--suite", debian.suite, "--into", debian.root]
    fetch += ["--only", "*", f"libstdc++-{debian.gcc}-dev", *packages]
    subprocess.run(fetch, check=True)
    headers, version = debian.root / "usr/include", str(debian.gcc)
    cxx = (f"c++/{version}", f"{MACHINE}/c++/{version}", f"c++/{version}/backward")
    libraries = (debian.root / "usr/lib/gcc" / MACHINE / version, debian.libraries)
    words = [f"--sysroot={debian.root}", "-nostdinc++"]
    words += [f"-isystem{headers / folder}" for folder in cxx]
    # -B for what GCC itself names: crti.o and the C library.
    words += [f"{flag}{folder}" for folder in libraries for flag in ("-L", "-B")]
    return compiler._replace(command=(*compiler.command, *words, "-pthread"))


def too_new(library: Path, debian: Debian) -> list[str]:
    """Return the versions of symbols that a library needs and the Debian's own libraries lack."""
    there = set[str]()
    for name in VERSIONED:
        _, _, defined = _objdump(debian.libraries / name).partition("Version definitions:")
        there.update(re.findall(r"^\d+ 0x\w+ 0x\w+ (\S+)", defined, re.M))
    _, _, needed = _objdump(library).partition("Version References:")
    wanted = set[str]()
    for part in needed.split("required from ")[1:]:
        of, _, versions = part.partition(":\n")
        if of in VERSIONED:
            wanted.update(re.findall(r"^\s+0x\w+ 0x\w+ \d+ (\S+)", versions, re.M))
    if not wanted or not there:
        sys.exit(f"{library}: objdump lists no versions of symbols")
    return sorted(wanted - there)


def _objdump(library: Path) -> str:
    command = ("objdump", "--private-headers", library)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def pack(
    source: Path,
    work: Path,
    files: Iterable[Path],
    debian: Debian,
    into: Path,
    notices: Iterable[Path] = (),
) -> Path:
    """Make a wheel of the package in a folder, with further files in it, and return its path.

    Parameters
    ----------
    source : Path
        A folder with pyproject.toml and the package in `python`.
    work : Path
        A folder for what lies between, which the caller removes.
    files : iterable of Path
        Files and folders that come into the package, and are not in the checkout.
    into : Path
        Where the wheel goes; it is made if it is missing.
    notices : iterable of Path
        Files NOTICE* that lie beside LICENSE in the wheel.
    """
    copied = shutil.copytree(source, work / "source")
    (package,) = (copied / "python").iterdir()
    for file in files:
        if file.is_dir():
            shutil.copytree(file, package / file.name)
        else:
            shutil.copy(file, package)
    for file in (ROOT / "LICENSE", *notices):
        shutil.copy(file, copied)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"]
    words = ["--no-build-isolation", "--no-deps", "-w", work / "wheel", copied]
    subprocess.run([*pip, *words], check=True)
    (linux,) = (work / "wheel").glob("*.whl")
    tags = [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", debian.platform]
    subprocess.run([*tags, linux], check=True, stdout=subprocess.DEVNULL)
    into.mkdir(parents=True, exist_ok=True)
    (tagged,) = (work / "wheel").glob("*.whl")
    return Path(shutil.move(tagged, into / tagged.name))
