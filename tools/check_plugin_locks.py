"""Has clang check the locks of the TensorFlow plug-in, whose other findings GCC's warnings are.

TensorFlow's headers take clang minutes, so it reads them once for each processor, and again only
when something of the plug-in has changed since it was clean.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from farwrite.plugin.build import allowed_jobs, write_batches
from farwrite.plugin.recipe import recipe
from farwrite.plugin.wheel import find_wheel
from run_clang_tidy import ROOT, Remembered

PLUGIN = ROOT / "src/tensorflow"
CHECKS = "--checks=-*,clang-diagnostic-error,clang-diagnostic-thread-safety*"


def analysis(batch: Path, flags: list[str]) -> str:
    """Return what clang says about a file that includes sources, nothing if it is content."""
    command = ["clang-tidy", "--quiet", "--allow-no-checks", CHECKS, "--warnings-as-errors=*"]
    command += [
        "--header-filter=/src/",
        str(batch),
        "--",
        *flags,
        "-Wno-deprecated-declarations",
        "-Wthread-safety",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def main() -> int:
    """Print each finding; return the exit status."""
    folders = (PLUGIN, ROOT / "src", ROOT / "include")
    flags = [f"-I{folder}" for folder in folders]
    flags += [flag for flag in recipe(find_wheel()).compile_flags if not flag.startswith("-I")]
    ours = sorted(path for path in PLUGIN.rglob("*") if path.suffix in (".cc", ".h"))
    read = hashlib.sha256(" ".join(flags).replace(str(ROOT), "").encode())
    for file in (*ours, *(ROOT / "src/core").glob("*.h"), Path(__file__)):
        read.update(file.read_bytes())
    remembered, name = Remembered(), read.hexdigest()
    if name in remembered:
        return 0
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor() as pool:
        sources = [path for path in ours if path.suffix == ".cc"]
        batches = write_batches(sources, allowed_jobs(), Path(made))
        said = "".join(pool.map(lambda batch: analysis(batch, flags), batches))
    if said:
        print(re.sub(rf"{re.escape(str(ROOT))}/", "", said))
        return 1
    remembered.add(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
