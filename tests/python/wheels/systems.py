"""Other Debians, unpacked without root: their C library, their Python, no tools.

A system of another processor runs under qemu-user. The kernel starts no program of it, so that
each is named after the emulator.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from wheels.environments import ROOT, call

EMULATOR = "qemu-aarch64-static"


class System(NamedTuple):
    """A Debian with one of its Pythons, and the wheel that is for it."""

    suite: str
    python: str
    wheel: str
    arch: str = "amd64"

    @property
    def root(self) -> Path:
        """The folder that holds the system."""
        return ROOT / ".cache" / "roots" / (self.suite + f"-{self.arch}" * self.emulated)

    @property
    def emulated(self) -> bool:
        """Whether its processor is not this machine's."""
        return self.arch != "amd64"

    @property
    def interpreter(self) -> list[str]:
        """The words that start its Python in it."""
        return [EMULATOR] * self.emulated + [f"/usr/bin/{self.python}"]


DEBIAN_11 = System("bullseye", "python3.11", "cp311-x86_64")
SYSTEMS = (
    DEBIAN_11,
    System("bookworm", "python3.11", "cp311-x86_64"),
    System("trixie", "python3.13", "cp312-abi3-x86_64"),
    System("forky", "python3.14", "cp312-abi3-x86_64"),
    System("forky", "python3.15", "cp312-abi3-x86_64"),
    System("bookworm", "python3.11", "cp311-aarch64", "arm64"),
    System("trixie", "python3.13", "cp312-abi3-aarch64", "arm64"),
)
"""Debian 11, 12, 13 and the next one, which is named forky until it is released."""


def unpack(system: System, *packages: str) -> None:
    """Unpack these packages and what they need into the system's root folder."""
    arch = ("--arch", system.arch) if system.emulated else ()
    words = ("--suite", system.suite, *arch, "--into", system.root, "--only", "*")
    call(ROOT / "tools/fetch_debs.sh", *words, *packages)
    if system.emulated:
        path = f"usr/bin/{EMULATOR}"
        call(ROOT / "tools/fetch_debs.sh", f"qemu-user-static:{path}")
        unpacked = ROOT / ".cache/debs" / path
        shutil.copy(unpacked if unpacked.exists() else Path("/", path), system.root / path)


def unpack_python(system: System) -> None:
    """Unpack the system's Python, and libstdc++6, which NumPy needs and Farwrite does not."""
    if system == DEBIAN_11:
        unpack(system, "libstdc++-10-dev", "zlib1g-dev")
        call(ROOT / "tools/build_python.sh", "debian11", system.root, seconds=1800)
    else:
        unpack(system, system.python, "libstdc++6")


def run_in(system: System, *command: str) -> str:
    """Run a command in the system, and return its output."""
    seconds = 600 if system.emulated else 200
    return call(ROOT / "tools/run_in_root.sh", system.root, *command, seconds=seconds)
