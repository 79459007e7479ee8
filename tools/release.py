"""Collects a release in out/release/VERSION, and installs each of its files: `make release`.

    .venv/bin/python tools/release.py

Takes the wheels of `make wheels` from out/wheels. Adds the wheels of farwrite-tensorflow and
farwrite-demo and the source distribution. Writes SHA256SUMS, the list of what is linked into the
files (contents.cdx.json, CycloneDX), and this version's section of the changelog (CHANGES.md).
Then every file that this machine can run is installed into an empty environment and imported.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6

from build_wheels import ROOT, TESTED, WHEELS, built_wheel, interpreters, runs_on

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION: str = PROJECT["project"]["version"]
FOLDER = ROOT / "out" / "release" / VERSION
LINKED = {
    "nanobind": "BSD-3-Clause",  # with robin-map, which is a part of it
    "ziglang": "Apache-2.0 WITH LLVM-exception",  # its libc++, libc++abi and compiler-rt
}
"""What is linked into the wheels, by its distribution on PyPI, and the licence of that part."""
CHECKS = {
    "farwrite": "import farwrite; farwrite.Device(fabrics=['shm']).close()",
    "farwrite_tensorflow": "import farwrite_tensorflow",
    "farwrite_demo": "import farwrite_demo",
}
"""By the beginning of a file's name, what must run where it is installed."""


def run(*command: str | Path) -> None:
    """Run a command that must end well."""
    subprocess.run(command, check=True, cwd=ROOT)


def pins() -> dict[str, str]:
    """Return the pinned version of each distribution in the dependency groups."""
    words = [word for group in PROJECT["dependency-groups"].values() for word in group]
    split = (word.partition("==") for word in words if isinstance(word, str))
    return {name: version for name, pinned, version in split if pinned}


def collect() -> None:
    """Put all files of the release into an empty folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    for wheel in WHEELS:
        file = built_wheel(wheel, ROOT / "out" / "wheels")
        if file is not None:
            shutil.copy(file, FOLDER)
        elif wheel.name in TESTED:
            sys.exit(f"release: out/wheels has no {wheel.name}; run make wheels")
    run(sys.executable, "tools/build_plugin_wheel.py", FOLDER)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", FOLDER)
    run(*build, "--wheel", "demo")
    run(*build, "--sdist", ".")


def files() -> list[Path]:
    """Return what is installed from the release."""
    return sorted((*FOLDER.glob("*.whl"), *FOLDER.glob("*.tar.gz")))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def contents() -> str:
    """Return the list of the files, and of what is linked into them, as CycloneDX."""
    licences = LicenseFactory()
    ours = licences.make_from_string(PROJECT["project"]["license"])
    whole = Component(name="farwrite", version=VERSION, type=ComponentType.LIBRARY, licenses=[ours])
    bom = Bom()
    bom.metadata.component = whole
    parts = []
    for file in files():
        value = HashType(alg=HashAlgorithm.SHA_256, content=digest(file))
        parts.append(
            Component(name=file.name, version=VERSION, type=ComponentType.FILE, hashes=[value])
        )
    for name, licence in LINKED.items():
        made = licences.make_from_string(licence)
        parts.append(
            Component(name=name, version=pins()[name], type=ComponentType.LIBRARY, licenses=[made])
        )
    for part in parts:
        bom.components.add(part)
    bom.register_dependency(whole, parts)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def changes() -> str:
    """Return this version's section of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(
        rf"^## \[[^\]]*\][^\n]*\b{re.escape(VERSION)}\b.*?(?=^## \[|\Z)", text, re.M | re.S
    )
    if found is None:
        sys.exit(f"release: CHANGELOG.md has no section of {VERSION}")
    return found[0]


def pythons_for(file: Path) -> Iterator[Path]:
    """Yield the Pythons of this machine that should run a file."""
    for python in interpreters():
        wheels = [wheel for wheel in WHEELS if wheel.tag in file.name]
        if not wheels and python.version == sys.version_info[:2]:
            yield Path(sys.executable)
        elif any(runs_on(wheel, python) for wheel in wheels):
            yield python.path


def install(file: Path, python: Path) -> float:
    """Install a file into an empty environment; return the seconds of pip, NumPy in its cache."""
    with tempfile.TemporaryDirectory(prefix="farwrite-release-") as folder:
        run(python, "-m", "venv", folder)
        inside = Path(folder) / "bin" / "python"
        pip = (inside, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        # farwrite-demo and farwrite-tensorflow require this farwrite, which is not on PyPI.
        run(*pip, "--only-binary=numpy", "numpy")
        began = time.monotonic()
        run(*pip, "--find-links", FOLDER, file)
        seconds = time.monotonic() - began
        run(inside, "-c", CHECKS[file.name.partition("-")[0]])
    return seconds


def main() -> int:
    """Make the release, and report on each file."""
    collect()
    (FOLDER / "contents.cdx.json").write_text(contents())
    (FOLDER / "CHANGES.md").write_text(changes())
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in sorted(FOLDER.iterdir()))
    (FOLDER / "SHA256SUMS").write_text(sums)
    for file in files():
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        pythons = list(pythons_for(file))
        if not pythons:
            print(f"release: {file.name}, {size}: not for this machine", flush=True)
        for python in pythons:
            seconds = install(file, python)
            print(f"release: {file.name}, {size}: installed in {seconds:.1f} s", flush=True)
    print(f"release: {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
