"""Proves that the matrix finds faults: prove.py [--cpp | --all | NAME...] [--keep]

Takes back one mend after another of `mended.py` and `mended_core.py` in a copy, and runs the
commands of the matrix that should find the fault. Prints what they say, and how many faults were
found. The exit status is 0 if four fifths were found, and each that was not is known to be out of
reach. By default it takes the faults of Python files, which need no build; names may be patterns.

It needs `make install`. For the core's faults it compiles a copy of the sources in build/proof, and
then what changes for each fault.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import farwrite
from matrix.mended import MENDED as IN_PYTHON
from matrix.mended import Mended
from matrix.mended_core import MENDED as IN_THE_CORE

ROOT = Path(__file__).parents[3]
SCRATCH = ROOT / "build" / "proof"
PACKAGE = SCRATCH / f"package-{os.getpid()}" / "farwrite"
TREE = SCRATCH / "tree"
BUILD = TREE / "build" / "release"

LONGEST = 240
"""Seconds after which a command counts as one that hangs."""
ENOUGH = 4 / 5
SETTINGS = ("Python_EXECUTABLE", "Python_INCLUDE_DIR", "CMAKE_CXX_FLAGS", "CMAKE_BUILD_TYPE")


def copy_package() -> None:
    """Copy the package that is installed. Its files are links, so changed ones are written anew."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    PACKAGE.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(Path(farwrite.__file__).parent, PACKAGE, copy_function=os.link)


def copy_tree() -> None:
    """Copy the sources, configure them as the installed package was, and compile."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        source, target = ROOT / name, TREE / name
        if not source.is_file() or source.is_symlink():
            continue
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    if not (TREE / ".cache").exists():
        (TREE / ".cache").symlink_to(ROOT / ".cache")  # GoogleTest, and what build_types needs
    settings = ["-DFARWRITE_PYTHON=ON", "-DFARWRITE_TESTS=ON"]
    for line in (ROOT / "build" / "release" / "CMakeCache.txt").read_text().splitlines():
        name, _, value = line.partition("=")
        if name.partition(":")[0] in SETTINGS:
            settings.append(f"-D{name}={value}")
    configure = ["cmake", "-S", str(TREE), "-B", str(BUILD), "-G", "Ninja", *settings]
    subprocess.run([*configure, "--log-level=WARNING"], check=True, stdout=subprocess.DEVNULL)


def build(of_cpp: bool) -> str:
    """Compile what changed into the copy of the package; return what the compiler refused."""
    targets = ["farwrite", "_farwrite", *(["farwrite_fault_tests"] if of_cpp else [])]
    options = [word for target in targets for word in ("--target", target)]
    made = subprocess.run(
        ["cmake", "--build", str(BUILD), *options], check=False, capture_output=True, text=True
    )
    if made.returncode != 0:
        return made.stdout[-2000:]
    for library in ("libfarwrite.so", *(path.name for path in PACKAGE.glob("_farwrite*.so"))):
        built = next(path for path in BUILD.rglob(library) if not path.is_symlink())
        (PACKAGE / library).unlink()
        shutil.copy(built, PACKAGE / library)
    return ""


@contextlib.contextmanager
def taken_back(fault: Mended) -> Iterator[str]:
    """Bring the fault back in the copy. Yield why it cannot be, or nothing."""
    of_python = fault.file.startswith("python/farwrite/")
    path = PACKAGE / fault.file.removeprefix("python/farwrite/") if of_python else TREE / fault.file
    text = path.read_text()
    if text.count(fault.today) != 1:
        yield f"no longer applies: its lines are {text.count(fault.today)} times in {fault.file}"
        return
    of_cpp = any(command.startswith("farwrite_fault_tests") for command in fault.commands)
    replace(path, text.replace(fault.today, fault.before))
    try:
        yield "" if of_python else build(of_cpp)
    finally:
        replace(path, text)
        if not of_python:
            build(of_cpp)


def replace(path: Path, text: str) -> None:
    path.unlink()  # it may be a link to the installed one
    path.write_text(text)


def words_of(command: str) -> list[str]:
    """The words of a command of the table, whose first one is a program."""
    program, *words = shlex.split(command)
    if program == "farwrite_fault_tests":
        return [str(BUILD / "tests" / program), *words]
    if program == "pytest":
        return [sys.executable, "-m", program, "-q", "-x", "-n0", "-p", "no:cacheprovider", *words]
    folder = "random_programs" if program == "search.py" else "matrix"
    path = ROOT / "tests" / "python" / folder / program
    return [sys.executable, "-W", "ignore", str(path), *words]


def found(command: str, line: str) -> bool:
    """Whether a line that a command printed says that it has found something."""
    if command.startswith("pytest"):
        return line.startswith(("FAILED", "ERROR"))
    if command.startswith("search.py"):
        return "Error: " in line or "killed by signal" in line
    return not line.endswith("fine\n")


def run(command: str) -> str:
    """Run a command of the table with the copy, until it finds something; return that."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGE.parent}:{ROOT / 'tests' / 'python'}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "FARWRITE_LOG": "error",
    }
    if command.startswith("farwrite_fault_tests"):
        environment["FARWRITE_FAULT_ROLE"] = "matrix"
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            words_of(command), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors,
            text=True, start_new_session=True,
        )  # fmt: skip
        late = threading.Event()

        def end() -> None:
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(LONGEST, end)
        timer.start()
        assert process.stdout is not None
        said = next((line for line in process.stdout if found(command, line)), "")
        status = None if said else process.wait()
        timer.cancel()
        end_early = late.is_set()
        end()
        process.wait()
        process.stdout.close()
        errors.seek(0)
        wrong = errors.read().splitlines()
    if said:
        return said.strip()
    if end_early:
        # Random programs go on for as long as they are told to.
        return "" if command.startswith("search.py") else f"had not ended after {LONGEST} s"
    return "" if status == 0 else f"ended with {status}: {' '.join(wrong[-2:])}"


@cache
def said_today(command: str) -> str:
    """Return what a command finds without any fault."""
    return run(command)


def prove(fault: Mended) -> tuple[str, str]:
    """Return the verdict about a fault, and what a command said."""
    with taken_back(fault) as obstacle:
        if obstacle:
            return "no longer applies", obstacle
        for command in fault.commands:
            if said := run(command):
                break
        else:
            return "not found", fault.out_of_reach
    if today := said_today(command):
        return "unusable", f"{command} without the fault: {today}"
    return "found", f"{command}: {said}"


def main() -> int:
    about, _, details = str(__doc__).partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--cpp", action="store_true", help="the faults of the core")
    parser.add_argument("--all", action="store_true", help="all faults")
    parser.add_argument("--keep", action="store_true", help="leave the copies in build/proof")
    given = parser.parse_args()
    named = given.names or ["*"]
    known = IN_PYTHON + IN_THE_CORE
    chosen = known if given.all or given.names else IN_THE_CORE if given.cpp else IN_PYTHON
    chosen = [fault for fault in chosen if any(fnmatch.fnmatch(fault.name, n) for n in named)]
    try:
        copy_package()
        if any(not fault.file.startswith("python/farwrite/") for fault in chosen):
            copy_tree()
            if refused := build(of_cpp=True):
                raise SystemExit(f"the copy does not compile: {refused}")
        verdicts = []
        for fault in chosen:
            started = time.monotonic()
            verdict, said = prove(fault)
            verdicts.append((fault, verdict))
            took = time.monotonic() - started
            print(f"{verdict}: {fault.name} ({fault.commit}, {took:.0f} s): {said}", flush=True)
    finally:
        shutil.rmtree(PACKAGE.parent, ignore_errors=True)
        if not given.keep:
            shutil.rmtree(TREE, ignore_errors=True)
    number = sum(verdict == "found" for _, verdict in verdicts)
    print(f"{number} of {len(verdicts)} found")
    unknown = [f for f, verdict in verdicts if verdict != "found" and not f.out_of_reach]
    return int(bool(unknown) or number < ENOUGH * len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
