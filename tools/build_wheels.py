"""Builds farwrite's wheels for other systems, without this system's compiler: `make wheels`.

    python tools/build_wheels.py [--into FOLDER] [WHEEL...]

Without names it builds those of x86_64 for a Python with a GIL; they go to out/wheels.
A wheel runs on every Linux of its processor with glibc 2.28 or newer. PyPI's ziglang compiles it.
Each needs an interpreter with its C headers: `python3.N` on the PATH, one of pyenv's, or one that
PYTHONS names (paths, separated by blanks or colons). One without the GIL is also looked for where
`tools/build_python.sh free-threaded build/wheels/python3.13t` builds it. Debian's headers are
fetched where they are missing. Below build/wheels, environments are kept. What is compiled goes
through ccache, whose folder CCACHE_DIR may name: the wheels of a processor differ in the module
alone. The exit status is 1 if a wheel was not built.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "wheels"
GLIBC = (2, 28)
NEWEST_HEADERS = (3, 14)
"""The stable ABI's wheel is not built with headers that are newer than those it was tested with."""
PROBE = (
    "import sys, sysconfig as s; print(*sys.version_info[:2], s.get_path('include'),"
    " s.get_config_var('Py_GIL_DISABLED') or 0, sys.implementation.name, sep='\\n')"
)


class Wheel(NamedTuple):
    """A wheel: for which Pythons, and for which processor."""

    name: str
    python: str
    processor: str

    @property
    def stable(self) -> bool:
        """Whether it is for the stable ABI, so that later Pythons run it as well."""
        return self.python.endswith("-abi3")

    @property
    def free_threaded(self) -> bool:
        """Whether it is for a Python without the GIL, which has no stable ABI."""
        return self.python.endswith("t")

    @property
    def oldest(self) -> tuple[int, int]:
        """The oldest Python that runs it."""
        return 3, int(self.python.removesuffix("-abi3").removesuffix("t").removeprefix("cp3"))

    @property
    def tag(self) -> str:
        """The tag in the wheel's name."""
        python = self.python if self.stable else f"cp3{self.oldest[1]}-{self.python}"
        return f"{python}-manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.processor}"


NATIVE = "x86_64"
WHEELS = tuple(
    Wheel(f"{python}-{processor}", python, processor)
    for python, processor in (
        ("cp311", NATIVE),
        ("cp312-abi3", NATIVE),
        ("cp313t", NATIVE),
        ("cp311", "aarch64"),
        ("cp312-abi3", "aarch64"),
    )
)
TESTED = [wheel.name for wheel in WHEELS if wheel.processor == NATIVE and not wheel.free_threaded]
"""The others are built if named. Those of another processor are an experiment: they ran in an
emulator alone. A Python without the GIL is one that few machines have."""
FREE_THREADED = BUILD / "python3.13t"
"""Where `tools/build_python.sh` is asked to build one."""


class Interpreter(NamedTuple):
    """A Python of this machine."""

    path: Path
    version: tuple[int, int]
    headers: Path
    free_threaded: bool = False

    @property
    def name(self) -> str:
        """Such as 3.13, or 3.13t without the GIL."""
        return f"{self.version[0]}.{self.version[1]}{'t' if self.free_threaded else ''}"


class WheelError(Exception):
    """Why a wheel cannot be built, and what to do."""


def named_pythons() -> Iterator[str]:
    """Yield the paths to look at: those of PYTHONS alone, if it names any."""
    if named := os.environ.get("PYTHONS", "").replace(":", " ").split():
        yield from named
        return
    yield sys.executable
    for minor in range(11, NEWEST_HEADERS[1] + 1):
        for folder in os.environ.get("PATH", "").split(":"):
            yield f"{folder}/python3.{minor}"
            yield f"{folder}/python3.{minor}t"
    yield str(FREE_THREADED / "bin" / "python3.13t")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(str(path) for path in pyenv.glob("versions/3.*/bin/python3"))


def interpreters() -> list[Interpreter]:
    """Return the CPythons that this machine has, each version once, and once without the GIL."""
    found: dict[str, Interpreter] = {}
    for path in named_pythons():
        if not shutil.which(path):
            continue
        probed = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, check=False)
        answers = probed.stdout.split("\n")
        if probed.returncode != 0 or len(answers) < 5:
            continue  # a shim of pyenv, for a version that is not active
        major, minor, headers, no_gil, implementation = answers[:5]
        if implementation != "cpython":
            continue
        one = Interpreter(Path(path), (int(major), int(minor)), Path(headers), no_gil == "1")
        held = found.get(one.name)
        if held is None or (has_headers(one) and not has_headers(held)):
            found[one.name] = one
    return sorted(found.values(), key=lambda one: (one.version, one.free_threaded))


def has_headers(python: Interpreter) -> bool:
    """Whether the C headers of `python` are installed."""
    return (python.headers / "Python.h").is_file()


def choose(wheel: Wheel, pythons: Sequence[Interpreter]) -> Interpreter:
    """Return the Python that builds `wheel`; raise `WheelError` if there is none."""
    last = NEWEST_HEADERS if wheel.stable else wheel.oldest
    fitting = [
        one
        for one in pythons
        if wheel.oldest <= one.version <= last and one.free_threaded == wheel.free_threaded
    ]
    if fitting:
        return next((one for one in fitting if has_headers(one)), fitting[0])
    seen = ", ".join(one.name for one in pythons) or "none"
    wanted = f"3.{wheel.oldest[1]}" + (f" to 3.{last[1]}" if wheel.stable else "")
    remedy = "install one, or name it in PYTHONS"
    if wheel.free_threaded:
        wanted += "t, without the GIL,"
        built = FREE_THREADED.relative_to(ROOT)
        remedy += f", or build it: tools/build_python.sh free-threaded {built}"
    raise WheelError(
        f"it needs CPython {wanted} and its headers, and this machine has {seen}; {remedy}"
    )


def own_environment() -> dict[str, str]:
    """Return this process's variables without flags for compilers: a wheel is for others."""
    own = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in own and not name.startswith("SKBUILD_")
    }


def call(
    *command: str | Path, log: Path | None = None, variables: Mapping[str, str] | None = None
) -> None:
    """Run a command in the checkout; raise `WheelError` with the end of its output."""
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env={**own_environment(), **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        raise WheelError(f"{command[0]}: {error}") from error
    if log is not None:
        log.write_text(ended.stdout)
    if ended.returncode != 0:
        where = f"; all of its output is in {log}" if log is not None else ""
        tail = "\n".join(ended.stdout.splitlines()[-60:])
        raise WheelError(f"{command[0]} failed with status {ended.returncode}{where}\n{tail}")


def environment(name: str, python: Path, group: str) -> Path:
    """Make a virtual environment with a dependency group of pyproject.toml; return its folder."""
    folder = BUILD / name
    stamp = folder / ".made"
    pins = f"{python.resolve()}\n" + (ROOT / "pyproject.toml").read_text()
    if not (folder / "bin" / "python").exists() or not stamp.is_file() or stamp.read_text() != pins:
        shutil.rmtree(folder, ignore_errors=True)
        call(python, "-m", "venv", folder)
        pip = (folder / "bin" / "python", "-m", "pip", "install", "-q")
        quiet = "--disable-pip-version-check"
        call(*pip, quiet, "pip>=25.1,<27")
        call(*pip, quiet, "--group", group)
        stamp.write_text(pins)
    return folder


def zig() -> Path:
    """Return the compiler, which the group `wheels` pins."""
    tools = environment("tools", Path(sys.executable), "wheels")
    (found,) = tools.glob("lib/python3*/site-packages/ziglang/zig")
    return found


def version_of(compiler: Path) -> str:
    """Return what zig prints as its version."""
    return subprocess.run(
        [compiler, "version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def compiler_program(compiler: Path, target: str, *, language: str = "c++") -> Path:
    """Write a compiler of one word, as ccache and CMake want it; return its path."""
    name = {"c++": "clang++", "cc": "clang"}[language]
    program = BUILD / f"compiler-{target.partition('-')[0]}" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{compiler}" {language} -target {target} "$@"\n')
    program.chmod(0o755)
    return program


def stub_of(wheel: Wheel, into: Path) -> Path:
    """Return the type stub of the same wheel for this processor, which can run its module."""
    native = next(one for one in WHEELS if (one.python, one.processor) == (wheel.python, NATIVE))
    built = built_wheel(native, into)
    if built is None:
        raise WheelError(f"its type stub is that of {native.name}: build that first")
    stub = BUILD / wheel.name / "_farwrite.pyi"
    stub.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(built) as archive:
        stub.write_bytes(archive.read("farwrite/_farwrite.pyi"))
    return stub


def runs_on(wheel: Wheel, python: Interpreter) -> bool:
    """Whether `python`, which is one of this machine, should run `wheel`."""
    later = wheel.stable and python.version > wheel.oldest
    fits = wheel.processor == NATIVE and wheel.free_threaded == python.free_threaded
    return fits and (later or python.version == wheel.oldest)


def built_wheel(wheel: Wheel, into: Path) -> Path | None:
    """Return the file of `wheel`, if it is there."""
    return next(into.glob(f"farwrite-*-{wheel.tag}.whl"), None)


def build(wheel: Wheel, python: Interpreter, into: Path) -> Path:
    """Build `wheel` and return its file."""
    compiler = zig()
    folder = environment(f"env-{python.name}", python.path, "build")
    # One folder a processor: ccache knows an object by its paths.
    work = BUILD / wheel.processor
    shutil.rmtree(work, ignore_errors=True)
    log = BUILD / f"{wheel.name}.log"
    target = f"{wheel.processor}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    launched = compiler_program(compiler, target)
    defines = {
        "CMAKE_CXX_COMPILER_LAUNCHER": str(BUILD / "tools" / "bin" / "ccache"),
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "cmake" / "zig.cmake"),
        "FARWRITE_ZIG": str(compiler),
        "FARWRITE_ZIG_CXX": str(launched),
        "FARWRITE_ZIG_TARGET": target,
        "FARWRITE_REQUIRE_VERBS": "ON",
    }
    settings = [f"build-dir={work}", f"wheel.tags={wheel.tag}", "install.strip=false"]
    if wheel.stable:
        settings.append(f"wheel.py-api=cp3{wheel.oldest[1]}")
    if wheel.processor != NATIVE:
        defines["FARWRITE_STUB"] = str(stub_of(wheel, into))
    if not has_headers(python):
        name = python.headers.name
        headers = f"usr/include/{name}"
        call("tools/fetch_debs.sh", f"lib{name}-dev:{headers}/Python.h")
        defines["Python_INCLUDE_DIR"] = str(ROOT / ".cache/debs" / headers)
        defines["CMAKE_CXX_FLAGS"] = f"-idirafter{ROOT}/.cache/debs/usr/include"
    settings += [f"cmake.define.{name}={value}" for name, value in defines.items()]
    made = BUILD / "made"
    shutil.rmtree(made, ignore_errors=True)
    variables = {
        "CCACHE_COMPILERTYPE": "clang",
        "CCACHE_COMPILERCHECK": f"string:{target} {version_of(compiler)}",
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
    }
    if wheel.processor != NATIVE and not wheel.stable:
        # The module's name; the headers are this processor's, whose types have the same sizes.
        suffix = f".cpython-3{wheel.oldest[1]}-{wheel.processor}-linux-gnu.so"
        variables["SETUPTOOLS_EXT_SUFFIX"] = suffix
    call(
        *(folder / "bin" / "python", "-m", "pip", "wheel", "--disable-pip-version-check"),
        *("--no-build-isolation", "--no-deps", "-v", "-w", made),
        *(f"--config-settings={setting}" for setting in settings),
        ROOT,
        log=log,
        variables=variables,
    )
    (file,) = made.glob("*.whl")
    for old in into.glob(f"farwrite-*-{wheel.tag}.whl"):
        old.unlink()
    return Path(shutil.move(file, into / file.name))


def main() -> int:
    """Build the wheels that are named, or those that are no experiment; return the exit status."""
    about, _, details = str(__doc__).split("\n\n", 2)
    parser = argparse.ArgumentParser(
        description=about, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = {wheel.name: wheel for wheel in WHEELS}
    parser.add_argument("wheels", nargs="*", metavar="WHEEL", help=" ".join(known))
    parser.add_argument("--into", type=Path, default=ROOT / "out" / "wheels")
    arguments = parser.parse_args()
    if unknown := set(arguments.wheels) - set(known):
        parser.error(f"no such wheel: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    into = arguments.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("wheels: waiting for another run in this checkout", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        return build_all(arguments.wheels or TESTED, into)


def build_all(names: Sequence[str], into: Path) -> int:
    """Build the named wheels; return 1 if one could not be built."""
    pythons = interpreters()
    failed = 0
    for wheel in WHEELS:
        if wheel.name not in names:
            continue
        try:
            python = choose(wheel, pythons)
            print(f"wheels: {wheel.name}, by {python.path}", flush=True)
            file = build(wheel, python, into)
            print(f"wheels: {file} ({file.stat().st_size / 1e6:.2f} MB)", flush=True)
        except WheelError as error:
            print(f"wheels: no wheel {wheel.name}: {error}", file=sys.stderr, flush=True)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
