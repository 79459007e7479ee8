"""Compiles the TensorFlow plug-in with every warning as an error, and keeps nothing.

    python tools/check_plugin_warnings.py [--jobs N]

A user's build has the same flags without -Werror: a newer compiler may warn of more.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from farwrite.plugin.build import precompile
from farwrite.plugin.compiler import find_compiler
from farwrite.plugin.recipe import recipe, source_folder
from farwrite.plugin.wheel import find_wheel

SOURCES = Path(__file__).resolve().parent.parent / "src" / "tensorflow"


def main() -> int:
    """Check all files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    jobs = parser.parse_args().jobs

    installed = f"-I{source_folder()}"
    plan = recipe(find_wheel())
    flags = [f"-I{SOURCES}" if flag == installed else flag for flag in plan.compile_flags]
    flags += ["-Wall", "-Wextra", "-Werror"]
    compiler = find_compiler()
    sources = sorted(SOURCES.glob("*.cc"))
    with ThreadPoolExecutor(jobs) as pool, tempfile.TemporaryDirectory() as folder:
        common = precompile(compiler, flags, SOURCES / plan.common.name, Path(folder))
        strict = [*compiler.command, *flags, *common, "-fsyntax-only"]

        def check(source: Path) -> bool:
            return subprocess.run([*strict, str(source)], check=False).returncode == 0

        failed = [clean for clean in pool.map(check, sources) if not clean]
    print(f"plug-in: {len(sources)} files, {len(failed)} with warnings")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
