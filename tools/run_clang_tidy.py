"""Runs clang-tidy on every file of src/, several at a time.

    python tools/run_clang_tidy.py [--jobs N] BUILD [FILE...]

BUILD holds compile_commands.json. With FILEs, only those are checked.
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
    parser.add_argument("build", type=Path)
    parser.add_argument("files", type=Path, nargs="*")
    arguments = parser.parse_args()

    database = json.loads((arguments.build / "compile_commands.json").read_text())
    known = {Path(entry["directory"], entry["file"]).resolve() for entry in database}
    wanted = {path.resolve() for path in arguments.files} or known
    sources = sorted(path for path in wanted & known if path.is_relative_to(ROOT / "src"))

    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(check, arguments.build, source) for source in sources]
        for run in as_completed(runs):
            source, clean, output = run.result()
            if not clean:
                failed += 1
                print(f"{source.relative_to(ROOT)}:\n{output}\n", flush=True)
    print(f"clang-tidy: {len(sources)} files, {failed} with findings")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
