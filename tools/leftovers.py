"""Finds what a test run left behind: processes, sockets and files.

    python tools/leftovers.py record FILE    before the run
    python tools/leftovers.py compare FILE   after it: prints what is new, exits 1 if anything is

Looked at: processes that run in or from this checkout, /dev/shm, Farwrite's files in the temporary
and runtime folders, and Farwrite's unix sockets.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
PATIENCE_SECONDS = 5.0


def ancestors() -> set[int]:
    """Return this process and those above it, which are not the run's."""
    found = {0}
    pid = os.getpid()
    while pid > 0:
        found.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def processes() -> Iterator[str]:
    """Yield the processes of this checkout."""
    mine = ancestors()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in mine:
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            places = [*words, os.readlink(entry / "cwd"), os.readlink(entry / "exe")]
            if not any(place == ROOT or place.startswith(ROOT + "/") for place in places):
                continue
        except OSError:
            continue  # gone meanwhile, or another user's
        yield f"process {entry.name}: {' '.join(words).strip()}"


def files() -> Iterator[str]:
    """Yield shared-memory files, and Farwrite's own in the temporary folders."""
    for path in Path("/dev/shm").iterdir():
        yield f"file {path}"
    folders = {tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", "/tmp")}
    for folder in folders:
        for path in Path(folder).glob("farwrite*"):
            yield f"file {path}"


def sockets() -> Iterator[str]:
    """Yield unix sockets, named or abstract, that bear Farwrite's name."""
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        name = "".join(line.split()[7:])
        if "farwrite" in name:
            yield f"socket {name}"


def everything() -> set[str]:
    """Return all that could be left behind."""
    return {*processes(), *files(), *sockets()}


def main(action: str, record: str) -> int:
    """Record or compare; return the exit status."""
    if action == "record":
        Path(record).write_text(json.dumps(sorted(everything())))
        return 0
    before = set(json.loads(Path(record).read_text()))
    # A killed child is gone only when its parent or init has waited for it.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := everything() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    for line in sorted(left):
        print(f"left behind: {line}")
    return int(bool(left))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
