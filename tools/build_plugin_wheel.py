"""Builds the wheel of farwrite-tensorflow into a folder, against the libraries of Debian 11.

    .venv/bin/python tools/build_plugin_wheel.py FOLDER

Compiles the plug-in as its first use does (farwrite.plugin.build), for the TensorFlow in .venv,
with this machine's GCC and the C and C++ libraries of Debian 11 (tools/fetch_debs.sh). The wheel is
for every Python, as the plug-in has none in it, and for the distributions of that TensorFlow in
plugin/tensorflow.json, whose headers are the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from farwrite.errors import Error
from farwrite.plugin import cache
from farwrite.plugin.build import allowed_jobs, compile_into
from farwrite.plugin.compiler import Compiler, find_compiler
from farwrite.plugin.prebuilt import FACTS, PACKAGE
from farwrite.plugin.recipe import Recipe, recipe
from farwrite.plugin.wheel import find_wheel, require_supported

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCE = CHECKOUT / "plugin"
KNOWN = SOURCE / "tensorflow.json"
ROOT = CHECKOUT / ".cache/roots/bullseye"
PLATFORM = "manylinux_2_31_x86_64"
MOST = {"GLIBC": (2, 31), "GLIBCXX": (3, 4, 28), "CXXABI": (1, 3, 12)}
"""What Debian 11 has."""
RPATHS = ("$ORIGIN/../farwrite", "$ORIGIN/../tensorflow")


def old_libraries() -> Compiler:
    """Return this machine's GCC with the libraries of Debian 11."""
    compiler = find_compiler()
    if compiler.family != "gcc":
        sys.exit(f"build_plugin_wheel: {compiler} is no GCC; name a g++ in CXX")
    fetch = [CHECKOUT / "tools/fetch_debs.sh", "--suite", "bullseye", "--into", ROOT, "--only", "*"]
    subprocess.run([*fetch, "libstdc++-10-dev"], check=True)
    machine = "x86_64-linux-gnu"
    headers = ROOT / "usr/include"
    folders = (headers / "c++/10", headers / machine / "c++/10", headers / "c++/10/backward")
    libraries = (ROOT / "usr/lib/gcc" / machine / "10", ROOT / "usr/lib" / machine)
    words = (f"--sysroot={ROOT}", "-nostdinc++", *(f"-isystem{folder}" for folder in folders))
    # -B for what GCC itself names: crti.o and the C library.
    words += tuple(f"{flag}{folder}" for folder in libraries for flag in ("-L", "-B"))
    return compiler._replace(command=(*compiler.command, *words, "-pthread"))


def relocatable(plan: Recipe) -> Recipe:
    """Return the recipe of a library that finds its neighbours in any site-packages."""
    kept = [flag for flag in plan.link_flags if not flag.startswith("-Wl,-rpath,")]
    return plan._replace(link_flags=(*kept, *(f"-Wl,-rpath,{path}" for path in RPATHS), "-Wl,-s"))


def too_new(library: Path) -> list[str]:
    """Return the versions of symbols that the library needs and Debian 11 lacks."""
    listed = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True)
    found = set(re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([0-9.]+)\b", listed.stdout))
    return sorted(
        f"{name}_{version}"
        for name, version in found
        if tuple(int(part) for part in version.split(".")) > MOST[name]
    )


def build(folder: Path) -> Path:
    """Build the wheel into `folder`, and return it."""
    if os.environ.get("FARWRITE_CXXFLAGS"):
        sys.exit(
            "build_plugin_wheel: FARWRITE_CXXFLAGS is set; unset it, for the wheel is for others"
        )
    wheel = find_wheel()
    require_supported(wheel)
    known = json.loads(KNOWN.read_text())
    if wheel.hashes() not in known.get(wheel.version, {}).values():
        sys.exit(
            f"build_plugin_wheel: {KNOWN.name} does not know the TensorFlow {wheel.version} in"
            f" {wheel.folder}; run tools/tensorflow_hashes.py {wheel.version}"
        )
    plan = recipe(wheel)
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "build", prefix="plugin-") as name:
        made = Path(name)
        compile_into(made / "built", relocatable(plan), old_libraries(), allowed_jobs())
        library = made / "built" / cache.LIBRARY
        if newer := too_new(library):
            sys.exit(f"build_plugin_wheel: the plug-in needs {', '.join(newer)}")
        source = made / "source"
        shutil.copytree(SOURCE, source)
        package = source / "python" / PACKAGE
        shutil.copy(library, package)
        shutil.copy(CHECKOUT / "LICENSE", source)
        facts = {
            "sources": plan.source_digest,
            "library": hashlib.sha256(library.read_bytes()).hexdigest(),
            "tensorflow": {wheel.version: known[wheel.version]},
        }
        (package / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check"]
        words = ["--no-build-isolation", "--no-deps", "-w", made / "wheel", source]
        subprocess.run([*pip, *words], check=True)
        (linux,) = (made / "wheel").glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / linux.name.replace("linux_x86_64", PLATFORM)
        tags = [
            sys.executable,
            "-m",
            "wheel",
            "tags",
            "--remove",
            "--platform-tag",
            PLATFORM,
            linux,
        ]
        subprocess.run(tags, check=True, stdout=subprocess.DEVNULL)
        shutil.move(made / "wheel" / result.name, result)
        return result


def main() -> int:
    """Read the command line, and build."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    try:
        made = build(parser.parse_args().folder)
    except (Error, subprocess.CalledProcessError) as error:
        sys.exit(f"build_plugin_wheel: {error}")
    print(f"{made} ({made.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
