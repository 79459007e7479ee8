"""Libraries of the tests that take the place of system libraries, compiled when they are needed."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def library(name: str, *options: str) -> Path:
    """Compile `tests/NAME` unless its sources have been compiled before, and return the path."""
    folder, built = ROOT / "tests" / name, ROOT / "build" / name
    sources = sorted(folder.glob("*.cc"))
    digest = hashlib.sha256()
    for source in sorted(folder.iterdir()):
        digest.update(source.read_bytes())
    path = built / digest.hexdigest()[:16] / f"lib{name}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    with (built / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            building = path.with_suffix(".building")
            # As one: the headers take most of the time.
            whole = "".join(f'#include "{source}"\n' for source in sources)
            command = ["g++", "-std=c++20", "-O1", *options, "-shared", "-fPIC", "-pthread"]
            command += ["-o", str(building), "-x", "c++", "-"]
            subprocess.run(command, input=whole, text=True, check=True)
            building.rename(path)
    return path
