"""Fails if a source file of the repository is longer than a reader wants to read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LONGEST = 500
SOURCES = {".cc", ".h", ".py", ".sh", ".cmake"}


def main() -> int:
    """Print each file that is too long; return the exit status."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    )
    failed = False
    for path in map(Path, listing.stdout.splitlines()):
        if path.suffix not in SOURCES or not path.is_file():
            continue
        lines = len(path.read_text().splitlines())
        if lines > LONGEST:
            print(f"{path}: {lines} lines; split it, {LONGEST} are the limit")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
