"""Fails if the map of folders in CONTRIBUTING.md lacks a folder, or has one that does not exist.

A row of the map starts with a folder. The text of a row names folders in it, in backquotes and with
a slash at the end. Folders of the first three levels must be in the map.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

MAP = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
HEADING = "## Where things live"
LEVELS = 3


def mapped(page: str) -> set[str]:
    """Return the folders in the map of `page`, and those that they are in."""
    section = page.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    found = set()
    for row, text in re.findall(r"^\| `([^`]+)/` \| (.*) \|$", section, re.MULTILINE):
        found |= {row, *(f"{row}/{name}" for name in re.findall(r"`([^`]+)/`", text))}
    return found | {folder for inner in found for folder in _above(inner)}


def existing(files: Iterable[str]) -> set[str]:
    """Return the folders that have `files` in them."""
    return {folder for file in files for folder in _above(file)}


def faults(page: str, files: Iterable[str]) -> list[str]:
    """Return a line for each folder that the map of `page` lacks, or should not have."""
    there, named = existing(files), mapped(page)
    lacking = {folder for folder in there if folder.count("/") < LEVELS} - named
    return [
        *(f"{MAP.name}: the map lacks {folder}/; say there what is in it" for folder in lacking),
        *(f"{MAP.name}: the map has {folder}/, which does not exist" for folder in named - there),
    ]


def _above(path: str) -> list[str]:
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]


def main() -> int:
    """Print each fault; return the exit status."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        cwd=MAP.parent,
    )
    files = [file for file in listing.stdout.splitlines() if (MAP.parent / file).is_file()]
    found = sorted(faults(MAP.read_text(), files))
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
