"""Runs clang-tidy on every file of src/ and bench/ that a build compiles, several at a time.

    python tools/run_clang_tidy.py [--jobs N] [--all] BUILD... [--files FILE...]

Each BUILD holds a compile_commands.json. With FILEs, only those are checked.

A clean file is remembered in the user's cache by a digest of all that clang-tidy read of ours: the
file, what it includes, its compile command, the settings and the tool's version. So a run looks at
what a change touches, in this clone and in any other; --all looks at everything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
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


@cache
def text_and_includes(file: Path) -> tuple[bytes, tuple[str, ...]]:
    """Return what a file says, and what it includes."""
    text = file.read_bytes()
    return text, tuple(name.decode() for name in INCLUDE.findall(text))


def digest(compiled: Compiled, version: bytes) -> str:
    """Return a name for all that clang-tidy reads, headers of the system left out."""
    read = hashlib.sha256(version)
    for file in compiled.settings:
        read.update(file.read_bytes())
    read.update(compiled.command.replace(str(ROOT), "").encode())
    waiting, seen = [compiled.source], {compiled.source}
    while waiting:
        file = waiting.pop()
        text, includes = text_and_includes(file)
        read.update(hashlib.sha256(text).digest())
        for name in includes:
            for folder in (file.parent, *compiled.folders):
                header = (folder / name).resolve()
                if header.is_file():
                    if header not in seen:
                        seen.add(header)
                        waiting.append(header)
                    break
    return read.hexdigest()


def check(compiled: Compiled) -> tuple[Path, bool, str]:
    """Return the file, whether it is clean, and what clang-tidy said about it."""
    # GCC's own warning options mean nothing to clang. Clang alone analyses locks.
    command = ["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
    command.append("--extra-arg=-Wthread-safety")
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
    parser.add_argument("--files", type=Path, nargs="+", default=[], metavar="FILE")
    arguments = parser.parse_args()

    known = {}
    for build in arguments.builds:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            source = Path(entry["directory"], entry["file"]).resolve()
            if any(source.is_relative_to(folder) for folder in FOLDERS):
                known[source] = Compiled(source, build.resolve(), entry["command"])
    wanted = {path.resolve() for path in arguments.files} or known.keys()
    if unknown := wanted - known.keys():
        parser.error(f"no BUILD compiles {', '.join(map(str, unknown))}")
    sources = [known[source] for source in sorted(wanted & known.keys())]

    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    names = {compiled.source: digest(compiled, version) for compiled in sources}
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
                text_and_includes.cache_clear()
                if digest(known[source], version) == names[source]:
                    remembered.add(names[source])
            else:
                failed += 1
                remembered.remove(names[source])
                print(f"{source.relative_to(ROOT)}:\n{output}\n", flush=True)
    remembered.forget_old()
    unchanged = len(names) - len(sources)
    print(f"clang-tidy: {len(sources)} files, {failed} with findings; {unchanged} as before, clean")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
