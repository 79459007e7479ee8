"""Builds the wheel of farwrite-tensorflow into a folder, against the libraries of Debian 11.

    .venv/bin/python tools/build_plugin_wheel.py FOLDER

Compiles the plug-in as its first use does (farwrite.plugin.build), for the TensorFlow in .venv,
with this machine's GCC and the C and C++ libraries of Debian 11 (tools/fetch_debs.sh). The wheel is
for every Python, as the plug-in has none in it, and for the distributions of that TensorFlow in
plugin/tensorflow.json, whose headers are the same. What of others those headers bring into the
library is in the wheel's prebuilt.json, and their licences in NOTICE.txt (tools/included.py).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from build_wheels import ROOT
from debian_wheel import DEBIAN_11, compiler_for, pack, too_new
from farwrite.errors import Error
from farwrite.plugin import cache
from farwrite.plugin.build import allowed_jobs, compile_into
from farwrite.plugin.prebuilt import FACTS
from farwrite.plugin.recipe import Recipe, recipe
from farwrite.plugin.wheel import find_wheel, require_supported
from included import INCLUDED, find_included, headers_read, notice

SOURCE = ROOT / "plugin"
KNOWN = SOURCE / "tensorflow.json"
RPATHS = ("$ORIGIN/../farwrite", "$ORIGIN/../tensorflow")


def relocatable(plan: Recipe) -> Recipe:
    """Return the recipe of a library that finds its neighbours in any site-packages."""
    kept = [flag for flag in plan.link_flags if not flag.startswith("-Wl,-rpath,")]
    return plan._replace(link_flags=(*kept, *(f"-Wl,-rpath,{path}" for path in RPATHS), "-Wl,-s"))


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
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="plugin-") as name:
        made = Path(name)
        compiler = compiler_for(DEBIAN_11)
        compile_into(made / "built", relocatable(plan), compiler, allowed_jobs())
        library = made / "built" / cache.LIBRARY
        if newer := too_new(library, DEBIAN_11):
            sys.exit(f"build_plugin_wheel: the plug-in needs {', '.join(newer)}")
        found = find_included(headers_read(plan, compiler), wheel.folder, wheel.version)
        (made / "NOTICE.txt").write_text(notice(found, wheel.folder, wheel.version))
        facts = {
            "sources": plan.source_digest,
            "library": hashlib.sha256(library.read_bytes()).hexdigest(),
            "tensorflow": {wheel.version: known[wheel.version]},
            INCLUDED: [one._asdict() for one in found],
        }
        (made / FACTS).write_text(json.dumps(facts, indent=2) + "\n")
        files = (library, made / FACTS)
        return pack(SOURCE, made, files, DEBIAN_11, folder, (made / "NOTICE.txt",))


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
