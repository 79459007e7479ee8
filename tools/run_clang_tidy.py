"""Runs clang-tidy on every file of src/ and bench/ that a build compiles, several at a time.

    python tools/run_clang_tidy.py [--jobs N] [--all] BUILD...

Each BUILD holds a compile_commands.json. Sources that it compiles as a group (cmake/unity.cmake)
are looked at as one: most of the time is their headers.

What was clean is remembered in the user's cache by a digest of all that clang-tidy read of ours:
the source or group, what it includes, its compile command, the settings and the tool's version. So
a run looks at what a change touches, in this clone and in any other; --all looks at everything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.resources
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "src", ROOT / "bench/src", ROOT / "bench/grpc")
OURS = r"/(include/farwrite|src|bench/grpc)/.*\.(h|cc)$"
CLEAN = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "farwrite/clang-tidy")
KEPT_DAYS = 30
INCLUDE = re.compile(rb'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)


class Compiled(NamedTuple):
    """A source, and how a build compiles it."""

    source: Path
    build: Path
    command: str

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the compiler looks for headers, of this checkout."""
        words = shlex.split(self.command)
        named = [word[2:] for word in words if word.startswith("-I")]
        named += [
            after
            for word, after in itertools.pairwise(words)
            if word in ("-I", "-isystem", "-idirafter")
        ]
        paths = (Path(self.build, name).resolve() for name in named)
        return tuple(path for path in paths if path.is_relative_to(ROOT))

    def is_ours(self) -> bool:
        """Whether it is one of FOLDERS, or a group of such."""
        source = self.source
        if "Unity" in source.parts:
            named = read(source).includes[0]
            source = next(filter(None, (header_at(folder, named) for folder in self.folders)))
        return any(source.is_relative_to(folder) for folder in FOLDERS)

    @property
    def settings(self) -> list[Path]:
        """The files of settings that clang-tidy may read for the source."""
        folders = [one for one in self.source.parents if one.is_relative_to(ROOT)]
        return [file for one in folders if (file := one / ".clang-tidy").is_file()]


class Remembered:
    """The digests of files that were clean. Without a writable cache there are none."""

    def __contains__(self, name: str) -> bool:
        """Whether the file was clean; it is then remembered for as long again."""
        try:
            (CLEAN / name).stat()
        except OSError:  # even if another user's
            return False
        self.add(name)
        return True

    def add(self, name: str) -> None:
        """Remember that the file is clean."""
        with contextlib.suppress(OSError):
            CLEAN.mkdir(parents=True, exist_ok=True)
            (CLEAN / name).touch()

    def remove(self, name: str) -> None:
        """Forget that the file was clean."""
        with contextlib.suppress(OSError):
            (CLEAN / name).unlink()

    def forget_old(self) -> None:
        """Forget what no run has asked for in KEPT_DAYS."""
        with contextlib.suppress(OSError):
            for file in CLEAN.iterdir():
                if file.stat().st_mtime < time.time() - KEPT_DAYS * 86_400:
                    file.unlink()


class Read(NamedTuple):
    """A file of ours as it was when it was read."""

    digest: bytes
    includes: tuple[str, ...]


@cache
def read(file: Path) -> Read:
    """Read a file once."""
    text = file.read_bytes()
    includes = tuple(name.decode() for name in INCLUDE.findall(text))
    return Read(hashlib.sha256(text).digest(), includes)


@cache
def header_at(folder: Path, name: str) -> Path | None:
    """Return the header that a folder has by that name."""
    header = (folder / name).resolve()
    return header if header.is_file() else None


def files_of(compiled: Compiled) -> list[Path]:
    """Return a source, what it includes, and its settings; headers of the system left out."""
    files, folders = [compiled.source], compiled.folders
    seen = set(files)
    for file in files:  # which grows
        for name in read(file).includes:
            found = (header_at(folder, name) for folder in (file.parent, *folders))
            header = next(filter(None, found), None)
            if header is not None and header not in seen:
                seen.add(header)
                files.append(header)
    return files + compiled.settings


def digest(compiled: Compiled, files: list[Path], version: bytes) -> str:
    """Return a name for all that clang-tidy reads of a source."""
    all_read = hashlib.sha256(version)
    all_read.update(compiled.command.replace(str(ROOT), "").encode())
    for file in files:
        all_read.update(read(file).digest)
    return all_read.hexdigest()


def is_unchanged(file: Path) -> bool:
    """Whether a file is as it was when it was read."""
    try:
        return hashlib.sha256(file.read_bytes()).digest() == read(file).digest
    except OSError:
        return False


@cache
def clang_tidy() -> str:
    """Return the path of the program, which .venv/bin has inside a program of Python."""
    return str(importlib.resources.files("clang_tidy").joinpath("data", "bin", "clang-tidy"))


def check(compiled: Compiled) -> tuple[Path, bool, str]:
    """Return the file, whether it is clean, and what clang-tidy said about it."""
    # GCC's own warning options mean nothing to clang. Clang alone analyses locks.
    command = [clang_tidy(), "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    command += ["--extra-arg=-Wthread-safety", f"--header-filter={OURS}"]
    done = subprocess.run(
        [*command, "-p", str(compiled.build), str(compiled.source)], capture_output=True, text=True
    )
    return compiled.source, done.returncode == 0, done.stdout.strip() or done.stderr.strip()


def main() -> int:
    """Check all files; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("builds", type=Path, nargs="+", metavar="BUILD")
    arguments = parser.parse_args()

    known = {}
    for build in arguments.builds:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            source = Path(entry["directory"], entry["file"]).resolve()
            compiled = Compiled(source, build.resolve(), entry["command"])
            if compiled.is_ours():
                known[source] = compiled
    sources = [known[source] for source in sorted(known)]

    version = subprocess.run([clang_tidy(), "--version"], capture_output=True, check=True).stdout
    files = {compiled.source: files_of(compiled) for compiled in sources}
    names = {one.source: digest(one, files[one.source], version) for one in sources}
    remembered = Remembered()
    if not arguments.all:
        sources = [one for one in sources if names[one.source] not in remembered]

    failed = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(check, compiled) for compiled in sources]
        for run in as_completed(runs):
            source, clean, output = run.result()
            if clean:
                # Not if it changed meanwhile: which text was clean is then unknown.
                if all(map(is_unchanged, files[source])):
                    remembered.add(names[source])
            else:
                failed += 1
                remembered.remove(names[source])
                print(f"{source.relative_to(ROOT)}:\n{output}\n", flush=True)
    remembered.forget_old()
    unchanged = len(names) - len(sources)
    print(
        f"clang-tidy: {len(sources)} sources and groups of them, {failed} with findings;"
        f" {unchanged} as before, clean"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
