"""Builds the C++ unit tests for aarch64 with zig, and runs them under qemu-user.

    .venv/bin/python tools/run_aarch64_tests.py [GTEST_FLAG...]

The compiler is that of the wheels for aarch64 (tools/build_wheels.py), and the C library that of
Debian 12 for arm64, unpacked below .cache/roots. The results go to
build/aarch64/results/unit.xml. The emulator keeps this processor's order of loads and stores: what
an ARM processor may reorder is not tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from build_wheels import BUILD, GLIBC, ROOT, compiler_program, version_of, zig

FOLDER = ROOT / "build" / "aarch64"
ROOT_FOLDER = ROOT / ".cache" / "roots" / "bookworm-arm64-libraries"
TARGET = f"aarch64-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
EMULATOR = "usr/bin/qemu-aarch64-static"
SUITE = "farwrite_unit_tests"
BEYOND_THE_EMULATOR = (
    # They start the program again in a child that dies; googletest gives clone() a new stack.
    *("LogDeathTest.*", "CopyKernelsDeathTest.*", "MutexDeathTest.*"),
    # It takes madvise() for advice that may be ignored.
    *("Segment.PrefaultBacksEveryPage", "Segment.IsNotMappedInAChildThatRanNoForkHandlers"),
    # It hands on more descriptors than the message has room for.
    "PacketSocket.RefusesAFloodOfDescriptorsAndKeepsNone",
    # It shows this machine's /proc/cpuinfo.
    "Processor.*",
    # One of many forked children hangs in it.
    "ForkedChild.IsOneOfManyWithoutADescriptorForEach",
)
"""Tests of what qemu-user 7.2 has not, or does in another way than the kernel."""
SEEDS = "5"
"""Of each test with an adversary: `make test` has many more."""


def fetch() -> Path:
    """Unpack what runs the tests, and return the emulator."""
    debs = ROOT / "tools" / "fetch_debs.sh"
    subprocess.run(
        [debs, "googletest:usr/src/googletest/googletest/include/gtest/gtest.h"], check=True
    )
    subprocess.run([debs, f"qemu-user-static:{EMULATOR}"], check=True)
    arm = ("--suite", "bookworm", "--arch", "arm64", "--into", ROOT_FOLDER, "--only", "*")
    subprocess.run([debs, *arm, "libc6", "libgcc-s1"], check=True)
    unpacked = ROOT / ".cache" / "debs" / EMULATOR
    return unpacked if unpacked.exists() else Path("/") / EMULATOR


def build() -> None:
    """Compile the tests, through ccache."""
    compiler = zig()
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_CXX_COMPILER_LAUNCHER": BUILD / "tools" / "bin" / "ccache",
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake" / "zig.cmake",
        "FARWRITE_TESTS": "ON",
        "FARWRITE_ZIG": compiler,
        "FARWRITE_ZIG_CC": compiler_program(compiler, TARGET, language="cc"),
        "FARWRITE_ZIG_CXX": compiler_program(compiler, TARGET),
        "FARWRITE_ZIG_TARGET": TARGET,
    }
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CCACHE_COMPILERTYPE": "clang",
        "CCACHE_COMPILERCHECK": f"string:{TARGET} {version_of(compiler)}",
    }
    words = [f"-D{name}={value}" for name, value in settings.items()]
    for command in (
        ["cmake", "-S", ROOT, "-B", FOLDER, "-G", "Ninja", "--log-level=WARNING", *words],
        ["cmake", "--build", FOLDER, "--target", SUITE, "--", "--quiet"],
    ):
        subprocess.run(command, env=environment, check=True)


def main() -> int:
    """Build and run; return the exit status of the tests."""
    emulator = fetch()
    build()
    shutil.rmtree(FOLDER / "results", ignore_errors=True)
    command = [emulator, "-L", ROOT_FOLDER, FOLDER / "tests" / SUITE, "--gtest_brief=1"]
    command += [f"--gtest_output=xml:{FOLDER}/results/unit.xml"]
    command += [f"--gtest_filter=-{':'.join(BEYOND_THE_EMULATOR)}", *sys.argv[1:]]
    environment = {"FARWRITE_ADVERSARY_SEEDS": SEEDS, **os.environ}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
