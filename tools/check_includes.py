"""Fails if a folder includes or imports from one that is not below it, or files from each other.

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
    "src/device": "core gpu memory fabric fabric/shm fabric/tcp fabric/verbs",
    "src/transfer": "core gpu memory fabric device",
    "src/stream": "core memory device",
    "src/box": "core memory device",
    "src/c_api": "core gpu memory fabric device transfer stream box tensorflow/stats",
    "src/grpc": "core",
    "src/grpc/include/farwrite": "",
    "src/python": "core/steady_condition.h",
    **{
        f"src/tensorflow/{folder}": " ".join(f"tensorflow/{below}" for below in PLUGIN[:number])
        for number, folder in enumerate(PLUGIN)
    },
    "src/tensorflow": " ".join(f"tensorflow/{folder}" for folder in PLUGIN),
    "python/farwrite": "",
    "demo/python/farwrite_demo": "farwrite",
    "bench/python/farwrite_bench": "farwrite",
    "experiments/python/farwrite_experiments": "farwrite farwrite_bench",
}
"""Folder: what it may use, folders or single files. C++ names them below `src/`, Python by the
package."""


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
    if used := circle(_graph(files)):
        found.append(
            f"{' -> '.join(used)}: these use each other when the program runs; let one of them not"
            " know the other (tools/check_includes.py)"
        )
    found += [
        f"{folder}/: say in tools/check_includes.py which folders it may use"
        for folder in sorted({str(PurePosixPath(path).parent) for path in files})
        if folder.startswith("src/") and folder not in FLOORS
    ]
    return found


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a way from a name back to itself, or nothing; `graph`: where each name leads."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        todo = [(start, 0)]
        while todo:
            name, depth = todo.pop()
            del path[depth:]
            if name in path:
                return [*path[path.index(name) :], name]
            if name not in done:
                done.add(name)
                path.append(name)
                todo += [(each, depth + 1) for each in graph.get(name, ())]
    return []


def _graph(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return which files of the house each file includes or imports when the program runs."""
    modules = {
        ".".join(PurePosixPath(path).with_suffix("").parts[at:]).removesuffix(".__init__"): path
        for path in files
        if path.endswith(".py") and (at := _package_at(path)) is not None
    }
    graph = {}
    for path, text in files.items():
        if path.endswith(".py"):
            names = _modules(ast.parse(text))
            used = (modules[name] for name in names if name in modules)
            graph[path] = [each for each in used if each != path]
        else:
            graph[path] = list(_included(path, text, files))
    return graph


def _package_at(path: str) -> int | None:
    """Return where in a path its package begins."""
    floor = _floor_of(path)
    return None if floor is None else len(PurePosixPath(floor).parts) - 1


def _floor_of(path: str) -> str | None:
    return next((str(at) for at in PurePosixPath(path).parents if str(at) in FLOORS), None)


def _may(floor: str, used: str) -> bool:
    allowed = FLOORS[floor].split()
    if floor.startswith("src/"):
        folder = str(PurePosixPath(used).parent)
        return used in allowed or folder in allowed or f"src/{folder}" == floor
    return used in allowed or used == PurePosixPath(floor).name


def _uses(path: str, text: str, files: Mapping[str, str]) -> Iterator[str]:
    if path.endswith(".py"):
        packages = {PurePosixPath(floor).name for floor in FLOORS}
        yield from packages & {name.partition(".")[0] for name in _modules(ast.parse(text))}
        return
    for name in _included(path, text, files):
        yield name.removeprefix("src/")


def _included(path: str, text: str, files: Mapping[str, str]) -> Iterator[str]:
    root = "src/tensorflow" if path.startswith("src/tensorflow/") else "src"
    for name in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
        if f"{root}/{name}" in files:
            yield f"{root}/{name}"


def _modules(tree: ast.AST) -> Iterator[str]:
    """Yield the modules, and what may be modules, that are imported when the program runs."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            # Of the package itself only the compiled module comes: it is no Python.
            if node.module != "farwrite":
                yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from _modules(node)


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
