"""The C++ compiler of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from typing import NamedTuple

from farwrite.errors import FailedPrecondition

_CANDIDATES = ("g++", "c++", "clang++")
_INSTALL = (
    "install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++;"
    " conda: conda install gxx) or name one in CXX"
)


class Compiler(NamedTuple):
    """A C++ compiler that runs and reported its version."""

    command: tuple[str, ...]
    family: str
    """"gcc" or "clang"."""
    version: str

    @property
    def abi(self) -> str:
        """The ABI of compiled code: family and major version, for example "gcc12"."""
        return f"{self.family}{self.version.split('.')[0]}"

    def __str__(self) -> str:
        return f"{shlex.join(self.command)} ({self.family} {self.version})"


def find_compiler() -> Compiler:
    """Take the compiler named in CXX, else the first of g++, c++ and clang++.

    Raises
    ------
    FailedPrecondition
        If no compiler runs, or CXX names something else. The message names what to install.
    """
    named = os.environ.get("CXX", "").strip()
    if named:
        found = _ask(tuple(shlex.split(named)))
        if found is None:
            raise FailedPrecondition(
                f"TensorFlow plug-in: CXX={named} is not a C++ compiler that runs on this machine;"
                f" {_INSTALL}"
            )
        return found
    for name in _CANDIDATES:
        path = shutil.which(name)
        found = _ask((path,)) if path else None
        if found is not None:
            return found
    raise FailedPrecondition(
        "TensorFlow plug-in: cannot compile it for the installed TensorFlow, because no C++"
        f" compiler ({', '.join(_CANDIDATES)}) runs on this machine; {_INSTALL}"
    )


def _ask(command: tuple[str, ...]) -> Compiler | None:
    macros = (*command, "-dM", "-E", "-x", "c++", os.devnull)
    try:
        asked = subprocess.run(macros, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = (line.split(" ", 2) for line in asked.stdout.splitlines())
    defined = {line[1]: line[2] for line in lines if len(line) == 3}
    family, prefix = ("clang", "__clang") if "__clang__" in defined else ("gcc", "__GNUC")
    numbers = ("_major__", "_minor__") if family == "clang" else ("__", "_MINOR__")
    version = ".".join(defined.get(prefix + number, "") for number in numbers)
    return Compiler(command, family, version) if asked.returncode == 0 else None
