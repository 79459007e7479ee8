"""Finds UCX's library in this Python environment, and compiles the program that runs it."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

from farwrite.errors import NotFound
from farwrite_bench.cache import cache_folder

SOURCES = Path(__file__).parent / "program"
HINT = "pip install 'libucx-cu12>=1.22,<2', or farwrite-bench[ucx]; it needs no GPU"
BUILD_SECONDS = 300


def find_library() -> Path:
    """Return the folder of the installed wheel, with its `include` and `lib`.

    Raises
    ------
    NotFound
        If it is not installed, or is not whole.
    """
    found = importlib.util.find_spec("libucx")
    if found is None or found.origin is None:
        raise NotFound(f"bench peers: UCX is not installed in this Python environment; {HINT}")
    folder = Path(found.origin).parent
    if not (folder / "include/ucp/api/ucp.h").exists() or not (folder / "lib/libucp.so").exists():
        raise NotFound(f"bench peers: {folder} has no headers or no libucp.so; {HINT}")
    return folder


def build(library: Path) -> Path:
    """Return the program for this library; compile it if its sources or the library changed.

    Raises
    ------
    NotFound
        If there is no C++ compiler, or the compilation fails.
    """
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        raise NotFound("bench peers: UCX needs a C++20 compiler; install g++, or set CXX")
    sources = sorted(SOURCES.glob("*.cc"))
    lib = library / "lib"
    command = [
        *(compiler, "-O2", "-DNDEBUG", "-std=c++20"),
        *(f"-I{library / 'include'}", f"-I{SOURCES}", *map(str, sources)),
        *(f"-L{lib}", f"-Wl,-rpath,{lib}", "-lucp", "-lucs"),
    ]
    key = hashlib.sha256("\0".join(command).encode())
    for source in sorted(SOURCES.iterdir()):
        key.update(source.read_bytes())
    key.update((library / "lib/libucp.so").read_bytes())
    folder = cache_folder() / "ucx_p2p"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / key.hexdigest()[:16]
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            print("bench: compiling the UCX program (seconds, once)", file=sys.stderr)
            unfinished = program.with_suffix(".new")
            _compile([*command, "-o", str(unfinished)])
            unfinished.rename(program)
    return program


def _compile(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFound(f"bench peers: the UCX program could not be compiled: {error}") from None
    if done.returncode != 0:
        tail = "".join(f"\n    {line[:300]}" for line in done.stderr.splitlines()[-12:])
        raise NotFound(f"bench peers: the UCX program could not be compiled; its errors:{tail}")
