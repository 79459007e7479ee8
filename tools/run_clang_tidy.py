"""Runs clang-tidy on every file of src/ and bench/src/ that a build compiles, several at a time.

    python tools/run_clang_tidy.py [--jobs N] BUILD... [--files FILE...]

Each BUILD holds a compile_commands.json. With FILEs, only those are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "src", ROOT / "bench/src", ROOT / "bench/grpc")


def check(build: Path, source: Path) -> tuple[Path, bool, str]:
    """Return the file, whether it is clean, and what clang-tidy said about it."""
    command = ["clang-tidy", "--quiet", "-p", str(build), str(source)]
    # GCC's own warning options mean nothing to clang.
    command.insert(2, "--extra-arg=-Wno-unknown-warning-option")
    done = subprocess.run(command, capture_output=True, text=True)
    return source, done.returncode == 0, done.stdout.strip() or done.stderr.strip()


def main() -> int:
    """Check all files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("builds", type=Path, nargs="+", metavar="BUILD")
    parser.add_argument("--files", type=Path, nargs="+", default=[], metavar="FILE")
    arguments = parser.parse_args()

    known = {}
    for build in arguments.builds:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            source = Path(entry["directory"], entry["file"]).resolve()
            if any(source.is_relative_to(folder) for folder in FOLDERS):
                known[source] = build
    wanted = {path.resolve() for path in arguments.files} or known.keys()
    sources = sorted(wanted & known.keys())

    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(check, known[source], source) for source in sources]
        for run in as_completed(runs):
            source, clean, output = run.result()
            if not clean:
                failed += 1
                print(f"{source.relative_to(ROOT)}:\n{output}\n", flush=True)
    print(f"clang-tidy: {len(sources)} files, {failed} with findings")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
