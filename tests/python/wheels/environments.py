"""The wheels of `make wheels`, and environments that have one of them and what it requires."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from build_wheels import (
    BUILD,
    NATIVE,
    NEWEST_HEADERS,
    TESTED,
    WHEELS,
    Interpreter,
    Wheel,
    built_wheel,
    interpreters,
)

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "out" / "wheels"
TOOLS = BUILD / "tools" / "bin"
BUILT = [one for one in WHEELS if one.name in TESTED or built_wheel(one, FOLDER)]
"""The others are tested if they are there: `make wheels` builds them if asked."""
RUNNABLE = [wheel for wheel in BUILT if wheel.processor == NATIVE]
PAIRS = [
    (wheel, minor)
    for wheel in RUNNABLE
    for minor in range(11, NEWEST_HEADERS[1] + 1)
    if minor == wheel.oldest[1] or (wheel.stable and minor > wheel.oldest[1])
]
"""Each wheel that this machine can run, with the minor version of each Python that should."""


@functools.cache
def python_of(wheel: Wheel, minor: int) -> Interpreter | None:
    """Return this machine's Python of a minor version, with or without the GIL as the wheel."""
    free = wheel.free_threaded
    found = (one for one in interpreters() if one.free_threaded == free)
    return next((one for one in found if one.version == (3, minor)), None)


def file_of(wheel: Wheel) -> Path:
    """Return the file of a wheel, which must have been built."""
    file = built_wheel(wheel, FOLDER)
    assert file is not None, f"{FOLDER} has no wheel {wheel.name}: run make wheels"
    return file


def ended(*command: str | Path, seconds: float = 200, **variables: str) -> tuple[int, str]:
    """Run a command to its end, within `seconds`; return its status and its output."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
        cwd="/",
        env=environment,
    )
    return done.returncode, done.stdout


def call(*command: str | Path, seconds: float = 200, **variables: str) -> str:
    """Run a command that must end well within `seconds`, and return its output."""
    status, output = ended(*command, seconds=seconds, **variables)
    assert status == 0, f"{command}\n{output}"
    return output


@functools.cache
def python_with(wheel: Wheel, python: Interpreter) -> Path:
    """Install the wheel into an empty environment, with NumPy alone, and return its Python."""
    folder = BUILD / "tested" / f"{wheel.name}-{python.name}"
    call(python.path, "-m", "venv", "--clear", folder)
    made = folder / "bin" / "python"
    pip = (made, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    call(*pip, "--only-binary=:all:", file_of(wheel))
    return made
