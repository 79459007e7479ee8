"""Compiles the plug-in, or another library, once for the installed TensorFlow.

The compiled libraries are in the user's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from farwrite.errors import FailedPrecondition, Internal, InvalidArgument
from farwrite.info import memory_available
from farwrite.plugin import cache
from farwrite.plugin.compiler import Compiler, find_compiler
from farwrite.plugin.prebuilt import find_prebuilt
from farwrite.plugin.recipe import Library, Recipe, recipe
from farwrite.plugin.wheel import Wheel, find_wheel, require_supported

JOB_BYTES = 2000 * 2**20
"""Peak memory of one compilation with TensorFlow's headers, in bytes."""
ERROR_LINES = 12


def ensure_built(*, jobs: int | None = None, before: Callable[[], object] = lambda: None) -> Path:
    """Return the plug-in for the installed TensorFlow. Compile it at its first use.

    Several processes may call this at once. One process compiles, and the others wait. `before` is
    called if this one compiles, right before.

    Raises
    ------
    FailedPrecondition
        If TensorFlow or a compiler is missing, or the compiler failed.
    Unsupported
        If Farwrite does not support this TensorFlow.
    """
    wheel = find_wheel()
    require_supported(wheel)
    built = find_built(wheel)
    if built is not None:
        return built
    plan = recipe(wheel)
    if (prebuilt := find_prebuilt(plan)) is not None:
        print(f"farwrite: {prebuilt.misfit}", file=sys.stderr, flush=True)
    return _compiled(plan, jobs, before)


def ensure_compiled(library: Library, *, jobs: int | None = None) -> Path:
    """Return another library for the installed TensorFlow, as `ensure_built` returns the plug-in.

    Raises
    ------
    FailedPrecondition, Unsupported
        As `ensure_built`.
    """
    wheel = find_wheel()
    require_supported(wheel)
    plan = recipe(wheel, library)
    return _find_cached(plan) or _compiled(plan, jobs)


def find_built(wheel: Wheel) -> Path | None:
    """Return the plug-in for `wheel`, of farwrite-tensorflow or from the cache, or None."""
    plan = recipe(wheel)
    prebuilt = find_prebuilt(plan)
    if prebuilt is not None and not prebuilt.misfit:
        return prebuilt.library
    return _find_cached(plan)


def _find_cached(plan: Recipe) -> Path | None:
    try:
        exact = cache.cache_folder() / plan.key(find_compiler()) / plan.library.name
        return exact if exact.exists() else None
    except FailedPrecondition:
        # Nothing can be compiled here now, but a build from when it could still serves.
        kept = cache.cache_folder().glob(f"{plan.key(None)}/{plan.library.name}")
        return next(iter(sorted(kept)), None)


def _compiled(plan: Recipe, jobs: int | None, before: Callable[[], object] = lambda: None) -> Path:
    library = plan.library
    if not plan.sources:
        raise Internal(
            f"{library.what}: the C++ sources are missing from {library.folder};"
            " install Farwrite again"
        )
    compiler = find_compiler()
    key = plan.key(compiler)
    waiting = f"farwrite: waiting for another process, which compiles the {library.what}"
    with cache.locked(key, waiting=waiting):
        target = cache.cache_folder() / key / library.name
        if not target.exists():
            jobs = jobs or allowed_jobs()
            before()
            compile_into(target.parent, plan, compiler, jobs)
        return target


def allowed_jobs() -> int:
    """Return the number of parallel compilations: FARWRITE_JOBS, or by CPUs and memory."""
    named = os.environ.get("FARWRITE_JOBS", "")
    if named:
        if not named.isdecimal() or int(named) < 1:
            raise InvalidArgument(
                f"TensorFlow plug-in: FARWRITE_JOBS={named} is not a whole number from 1 on"
            )
        return int(named)
    return max(1, min(len(os.sched_getaffinity(0)), memory_available() // JOB_BYTES))


def compile_into(target: Path, plan: Recipe, compiler: Compiler, jobs: int) -> None:
    """Compile and link the library, and make the folder `target` of it and its build.json.

    Raises
    ------
    FailedPrecondition
        If the compiler failed; then there is no `target`.
    """
    from concurrent.futures import ThreadPoolExecutor, as_completed  # a build is seldom

    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as name:
        made = Path(name)
        what = plan.library.what
        batches = write_batches(plan.sources, jobs, made)
        say = _progress(f"compiling the {what} for TensorFlow {plan.wheel.minor}", len(batches) + 1)
        say(0)
        objects = [batch.with_suffix(".o") for batch in batches]
        # A type of one source may hold another of its unnamed namespace, which GCC warns of in a
        # file that is included.
        quiet = ("-Wno-subobject-linkage",) if compiler.family == "gcc" else ()
        command = (*launcher(), *compiler.command, *plan.compile_flags, *quiet)
        commands = [
            (*command, "-c", str(batch), "-o", str(object_file))
            for batch, object_file in zip(batches, objects, strict=True)
        ]
        with ThreadPoolExecutor(jobs) as pool:
            pending = [pool.submit(_call, command, what) for command in commands]
            try:
                for done, finished in enumerate(as_completed(pending), 1):
                    finished.result()
                    say(done)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        keep = made / "keep"
        keep.mkdir()
        linked = ("-o", str(keep / plan.library.name), *map(str, objects), *plan.link_flags)
        _call((*compiler.command, *linked), what)
        facts = {
            "tensorflow": plan.wheel.version,
            "compiler": str(compiler),
            "compile_flags": plan.compile_flags,
            "link_flags": plan.link_flags,
            "seconds": round(time.monotonic() - started, 1),
        }
        (keep / "build.json").write_text(json.dumps(facts, indent=2) + "\n")
        keep.rename(target)  # all of it or nothing
        say(len(batches) + 1)


def write_batches(sources: Sequence[Path], count: int, folder: Path) -> list[Path]:
    """Write at most `count` files into `folder` that include all sources; return these files.

    TensorFlow's headers are most of the work on every source. A batch reads them once.
    """
    batches: list[list[Path]] = [[] for _ in range(min(count, len(sources)))]
    sizes = [0] * len(batches)
    for source in sorted(sources, key=lambda one: (-one.stat().st_size, one)):
        least = sizes.index(min(sizes))
        batches[least].append(source)
        sizes[least] += source.stat().st_size
    files = [folder / f"batch_{number}.cc" for number in range(len(batches))]
    for file, batch in zip(files, batches, strict=True):
        file.write_text("".join(f'#include "{source}"\n' for source in sorted(batch)))
    return files


def launcher() -> tuple[str, ...]:
    """Return the compiler cache that CMAKE_CXX_COMPILER_LAUNCHER names, as CMake takes it."""
    named = os.environ.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    return tuple(filter(None, named.split(";")))


def _call(command: tuple[str, ...], what: str) -> None:
    ended = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if ended.returncode == 0:
        return
    lines = ended.stdout.splitlines()
    telling = [line for line in lines if "error" in line or "undefined" in line] or lines
    shown = "".join(f"\n    {line[:300]}" for line in telling[:ERROR_LINES])
    killed = ended.returncode < 0 or "Killed" in ended.stdout
    remedy = "; memory may be short, so try FARWRITE_JOBS=1" if killed else ""
    raise FailedPrecondition(
        f"{what}: {command[0]} ended with status {ended.returncode}{remedy}:{shown}"
    )


def _progress(what: str, steps: int) -> Callable[[int], None]:
    """Return a printer of progress: one rewritten line on a terminal, else first and last."""
    started = time.monotonic()

    def say(done: int) -> None:
        line = f"farwrite: {what}: {done}/{steps} ..."
        if done == steps:
            line = f"farwrite: {what}: done in {time.monotonic() - started:.0f} s, and cached"
        if sys.stderr.isatty():
            end = "\n" if done == steps else ""
            print(f"\r\033[K{line}", end=end, file=sys.stderr, flush=True)
        elif done in (0, steps):
            print(line, file=sys.stderr, flush=True)

    return say
