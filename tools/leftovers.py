"""Finds what a test run left behind: processes, sockets and files.

    python tools/leftovers.py record FILE    before the run
    python tools/leftovers.py compare FILE   after it: prints what is new, exits 1 if anything is

Looked at: processes that run in or from this checkout, /dev/shm, Farwrite's files in the temporary
and runtime folders, and Farwrite's unix sockets.

The kernel does not record which process made a file in /dev/shm. A new one is blamed on the run if
it belongs to this user and no process of another program has it open or mapped. So a file of a
child that died is blamed, and one that another program works with is not.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)
PATIENCE_SECONDS = 30.0
SHARED_MEMORY = "/dev/shm/"


def ancestors() -> set[int]:
    """Return this process and those above it, which are not the run's."""
    found = {0}
    pid = os.getpid()
    while pid > 0:
        found.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


def command_here(process: Path) -> str | None:
    """Return the command line of a process that runs in or from this checkout, else None."""
    words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    places = [*words, os.readlink(process / "cwd"), os.readlink(process / "exe")]
    if any(place == ROOT or place.startswith(ROOT + "/") for place in places):
        return " ".join(words).strip()
    return None


def processes() -> Iterator[str]:
    """Yield the processes of this checkout."""
    mine = ancestors()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in mine:
            continue
        try:
            command = command_here(entry)
        except OSError:
            continue  # gone meanwhile, or another user's
        if command is not None:
            yield f"process {entry.name}: {command}"


def shared_memory_files() -> set[str]:
    """Return the files in /dev/shm that belong to this user."""
    found = set()
    for entry in os.scandir(SHARED_MEMORY):
        with contextlib.suppress(FileNotFoundError):  # gone meanwhile
            if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                found.add(entry.path)
    return found


def held_by_others(
    paths: set[str], is_other: Callable[[Path], bool] = lambda process: False
) -> set[str]:
    """Return those of `paths` that a process of another program has open or mapped.

    A process is another program's if it does not run in or from this checkout, or if `is_other`
    returns true for its folder in /proc.
    """
    held: set[str] = set()
    for process in Path("/proc").iterdir() if paths else ():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            if command_here(process) is not None and not is_other(process):
                continue
            maps = (process / "maps").read_text(errors="replace").splitlines()
            held.update(line.split(maxsplit=5)[-1] for line in maps if SHARED_MEMORY in line)
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    held.add(os.readlink(descriptor))
    return paths & held


def files() -> Iterator[str]:
    """Yield shared-memory files, and Farwrite's own in the temporary folders."""
    for path in shared_memory_files():
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


def left_since(before: set[str]) -> set[str]:
    """Return what is there now and was not, but for the files of other programs."""
    left = everything() - before
    others = held_by_others({line.removeprefix("file ") for line in left})
    return left - {f"file {path}" for path in others}


def main(action: str, record: str) -> int:
    """Record or compare; return the exit status."""
    if action == "record":
        Path(record).write_text(json.dumps(sorted(everything())))
        return 0
    before = set(json.loads(Path(record).read_text()))
    # A killed child is gone only when its parent or init has waited for it.
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := left_since(before)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for line in sorted(left):
        print(f"left behind: {line}")
    return int(bool(left))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "compare"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2]))
