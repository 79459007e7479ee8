"""Makes a release in out/release/VERSION of what is committed: `make release`.

    .venv/bin/python tools/release.py

Builds the wheels of `make wheels`, those of farwrite-tensorflow, farwrite-grpc and farwrite-demo,
and the source distribution. Writes SHA256SUMS, the list of what of others is in the files
(contents.cdx.json, CycloneDX), and this version's section of the changelog (CHANGES.md). Every file
is installed into an empty environment and used. The folder is there once all of that went well.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6

from build_grpc_wheel import GRPC
from build_wheels import ROOT, WHEELS, interpreters, runs_on
from farwrite.plugin.prebuilt import FACTS
from included import INCLUDED, Included

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION: str = PROJECT["project"]["version"]
RESULT = ROOT / "out" / "release" / VERSION
FOLDER = RESULT.with_name(f".{VERSION}")
"""What is not yet checked."""
OTHERS = {
    "farwrite-": {
        "nanobind": "BSD-3-Clause",
        "robin-map": "MIT",  # in nanobind
        **dict.fromkeys(("libc++", "libc++abi", "compiler-rt"), "Apache-2.0 WITH LLVM-exception"),
        "rdma-core": "Linux-OpenIB OR GPL-2.0-only",  # functions of verbs.h
    },
    "farwrite_grpc-": {"grpc": "Apache-2.0", "abseil-cpp": "Apache-2.0"},  # headers of Debian's
}
"""What of others is in the wheels, by how their names begin, with the licence of that part."""
TENSORFLOW = "tensorflow-cpu==2.21.0"
USE_PLUGIN = (
    "import farwrite.tensorflow as f; assert 'farwrite_tensorflow' in str(f.PLUGIN), f.PLUGIN"
)
USE_COMPONENT = (
    "import ctypes; from farwrite.run.grpc_component import PRELOADED, find_component;"
    " found = find_component(); assert found.name == 'farwrite_grpc', found;"
    " ctypes.CDLL(str(found / PRELOADED))"
)
"""The other library needs gRPC: tests/python/wheels runs programs with it."""
CHECKS = {
    "farwrite": ("import farwrite; farwrite.Device(fabrics=['shm']).close()",),
    "farwrite_tensorflow": (USE_PLUGIN, TENSORFLOW),
    "farwrite_grpc": (USE_COMPONENT,),
    "farwrite_demo": ("import farwrite_demo",),
}
"""By the beginning of a file's name, what must run beside it, and what that needs besides."""


def run(*command: str | Path) -> None:
    """Run a command that must end well."""
    subprocess.run(command, check=True, cwd=ROOT)


def pins() -> dict[str, str]:
    """Return the pinned version of each distribution in the dependency groups."""
    words = [word for group in PROJECT["dependency-groups"].values() for word in group]
    split = (word.partition("==") for word in words if isinstance(word, str))
    return {name: version for name, pinned, version in split if pinned}


def commit() -> str:
    """Return the commit of the checkout, which must have no changes besides."""
    git = ("git", "-C", ROOT)
    changed = subprocess.check_output((*git, "status", "--porcelain"), text=True)
    if changed:
        sys.exit(f"release: commit or remove these first, as a release is of a commit:\n{changed}")
    return subprocess.check_output((*git, "rev-parse", "HEAD"), text=True).strip()


def collect() -> None:
    """Put all files of the release into an empty folder."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    run(sys.executable, "tools/build_wheels.py", "--into", FOLDER)
    run(sys.executable, "tools/build_plugin_wheel.py", FOLDER)
    run(sys.executable, "tools/build_grpc_wheel.py", FOLDER)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", FOLDER)
    run(*build, "--wheel", "demo")
    run(*build, "--sdist", ".")


def files() -> list[Path]:
    """Return what is installed from the release."""
    return sorted((*FOLDER.glob("*.whl"), *FOLDER.glob("*.tar.gz")))


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def contents(of: str) -> str:
    """Return the list of the files, and of what of others is in each of them, as CycloneDX."""
    licences = LicenseFactory()
    ours = licences.make_from_string(PROJECT["project"]["license"])
    whole = Component(name="farwrite", version=VERSION, type=ComponentType.LIBRARY, licenses=[ours])
    bom = Bom()
    bom.metadata.component = whole
    bom.metadata.properties.add(Property(name="farwrite:commit", value=of))

    @functools.cache  # one for all the files that have it
    def component(part: Included) -> Component:
        return Component(
            name=part.name,
            version=part.version or None,
            type=ComponentType.LIBRARY,
            licenses=[licences.make_from_string(part.licence)],
        )

    listed = []
    for file in files():
        value = HashType(alg=HashAlgorithm.SHA_256, content=digest(file))
        one = Component(name=file.name, version=VERSION, type=ComponentType.FILE, hashes=[value])
        inside = [component(part) for part in others_in(file)]
        for part in (one, *inside):
            bom.components.add(part)
        bom.register_dependency(one, inside)
        listed.append(one)
    bom.register_dependency(whole, listed)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def others_in(file: Path) -> list[Included]:
    """Return what of others is in a wheel: as its own facts say it, and as OTHERS does."""
    if file.suffix != ".whl":
        return []
    versions = {**pins(), GRPC.name.partition("-")[0]: GRPC.name.partition("-")[2]}
    with zipfile.ZipFile(file) as wheel:
        names = [name for name in wheel.namelist() if name.endswith(f"/{FACTS}")]
        facts = [json.loads(wheel.read(name)) for name in names]
    return [
        *(Included(**one) for each in facts for one in each[INCLUDED]),
        *(
            Included(name, versions.get(name, ""), licence)
            for start, parts in OTHERS.items()
            if file.name.startswith(start)
            for name, licence in parts.items()
        ),
    ]


def changes() -> str:
    """Return this version's section of the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text()
    found = re.search(
        rf"^## \[[^\]]*\][^\n]*\b{re.escape(VERSION)}\b.*?(?=^## \[|\Z)", text, re.M | re.S
    )
    if found is None:
        sys.exit(f"release: CHANGELOG.md has no section of {VERSION}")
    return found[0]


def pythons_for(file: Path) -> list[Path]:
    """Return the Pythons of this machine that should run a file; there must be one."""
    wheels = [wheel for wheel in WHEELS if wheel.tag in file.name]
    if not wheels:
        return [Path(sys.executable)]
    found = [one.path for one in interpreters() if any(runs_on(each, one) for each in wheels)]
    if not found:
        sys.exit(f"release: no Python here runs {file.name}; name one in PYTHONS")
    return found


def install(file: Path, python: Path) -> float:
    """Use a file in an empty environment; return the seconds of pip without what it requires."""
    with tempfile.TemporaryDirectory(prefix="farwrite-release-") as folder:
        run(python, "-m", "venv", folder)
        inside = Path(folder) / "bin" / "python"
        pip = (inside, "-m", "pip", "install", "-q", "--disable-pip-version-check")
        program, *needed = CHECKS[file.name.partition("-")[0]]
        run(*pip, "--only-binary=:all:", "numpy", *needed)
        began = time.monotonic()
        # farwrite-demo and the compiled parts require this farwrite, which is not on PyPI.
        run(*pip, "--find-links", FOLDER, file)
        seconds = time.monotonic() - began
        run(inside, "-c", program)
    return seconds


def main() -> int:
    """Make the release, and report on each file."""
    of = commit()
    collect()
    (FOLDER / "contents.cdx.json").write_text(contents(of))
    (FOLDER / "CHANGES.md").write_text(changes())
    sums = "".join(f"{digest(file)}  {file.name}\n" for file in sorted(FOLDER.iterdir()))
    (FOLDER / "SHA256SUMS").write_text(sums)
    for file in files():
        size = f"{file.stat().st_size / 1e6:.1f} MB"
        for python in pythons_for(file):
            seconds = install(file, python)
            print(f"release: {file.name}, {size}: installed in {seconds:.1f} s", flush=True)
    shutil.rmtree(RESULT, ignore_errors=True)
    FOLDER.rename(RESULT)
    print(f"release: {RESULT}, of {of[:12]}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(f"release: {' '.join(map(str, error.cmd))} ended with {error.returncode}")
