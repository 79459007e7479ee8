"""Fails if a folder includes or imports from one that is not below it.

`FLOORS` says for each folder which others it may use: those of the house that are below it. The
public headers in `include/` are open to all. What only a type checker imports does not count.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]

PLUGIN = (
    "base", "stats", "memory", "edges", "peer", "tensor", "call", "step", "control", "session",
    "collective", "server",
)  # fmt: skip
"""The folders of the TensorFlow plug-in: each may use those before it."""

FLOORS: Mapping[str, str] = {
    "src/core": "",
    "src/gpu": "core",
    "src/memory": "core gpu",
    "src/fabric": "core gpu memory",
    "src/fabric/shm": "core gpu memory fabric",
    "src/fabric/tcp": "core gpu memory fabric",
    "src/fabric/verbs": "core gpu memory fabric",
    "src/fabric/simulated": "core gpu memory fabric",
    "src/device": "core gpu memory fabric fabric/shm fabric/tcp fabric/verbs fabric/simulated",
    "src/transfer": "core memory fabric device",
    "src/stream": "core",
    "src/box": "core memory device",
    "src/c_api": "core memory transfer",
    "src/grpc": "core",
    "src/grpc/include/farwrite": "",
    "src/python": "core memory fabric device tensorflow/stats",
    **{
        f"src/tensorflow/{folder}": " ".join(f"tensorflow/{below}" for below in PLUGIN[:number])
        for number, folder in enumerate(PLUGIN)
    },
    "src/tensorflow": " ".join(f"tensorflow/{folder}" for folder in PLUGIN),
    "python/farwrite": "",
    "bench/python/farwrite_bench": "farwrite",
    "experiments/python/farwrite_experiments": "farwrite farwrite_bench",
}
"""Folder: the folders that it may use. C++ names them below `src/`, Python by the package."""


def faults(files: Mapping[str, str]) -> list[str]:
    """Return a line for each use of a folder that is not below; `files`: text by path."""
    found = [
        f"{path}: uses {used}, which is not below it: its folder may use "
        f"{FLOORS[floor] or 'no other'}; move what both need down (tools/check_includes.py)"
        for path, text in files.items()
        if (floor := _floor_of(path)) is not None
        for used in _uses(path, text, files)
        if not _may(floor, used)
    ]
    found += [
        f"{folder}/: say in tools/check_includes.py which folders it may use"
        for folder in sorted({str(PurePosixPath(path).parent) for path in files})
        if folder.startswith("src/") and folder not in FLOORS
    ]
    return found


def _floor_of(path: str) -> str | None:
    return next((str(at) for at in PurePosixPath(path).parents if str(at) in FLOORS), None)


def _may(floor: str, used: str) -> bool:
    allowed = FLOORS[floor].split()
    if floor.startswith("src/"):
        return used in allowed or f"src/{used}" == floor
    return used in allowed or used == PurePosixPath(floor).name


def _uses(path: str, text: str, files: Mapping[str, str]) -> Iterator[str]:
    if path.endswith(".py"):
        packages = {PurePosixPath(floor).name for floor in FLOORS}
        yield from (used for used in _imported(ast.parse(text)) if used in packages)
        return
    root = "src/tensorflow" if path.startswith("src/tensorflow/") else "src"
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        if f"{root}/{name}" in files:
            yield str(PurePosixPath(f"{root}/{name}").parent).removeprefix("src/")


def _imported(tree: ast.AST) -> Iterator[str]:
    """Yield the packages that are imported when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]
        else:
            yield from _imported(node)


def _texts(names: Iterable[str]) -> dict[str, str]:
    ours = (".h", ".cc", ".py")
    return {
        name: (ROOT / name).read_text()
        for name in names
        if name.endswith(ours) and (ROOT / name).is_file() and _floor_of(name) is not None
    }


def main() -> int:
    """Print each fault; return the exit status."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found = faults(_texts(listing.stdout.splitlines()))
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
