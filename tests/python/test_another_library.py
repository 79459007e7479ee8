"""What a process is told that has loaded the libfarwrite.so of another Farwrite."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import farwrite as fw
from another_library import C_ABI, VERSION, build_library

PROGRAM = """
#include <farwrite/device.h>
int main() {
  const auto device = farwrite::Device::open();
  std::puts(device.status().message().c_str());
}
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return build_library(tmp_path)


def needed() -> int:
    header = Path(fw.__file__).parent / "include/farwrite/c_status.h"
    found = re.search(r"^#define FW_ABI_VERSION (\d+)$", header.read_text(), re.M)
    assert found is not None
    return int(found[1])


def run_with(library: Path, *command: str | Path) -> str:
    """Run a command with another library before Farwrite's; return what it wrote."""
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=200
    )
    return ended.stdout + ended.stderr


def test_the_import_names_both_versions_and_the_file(library: Path) -> None:
    assert (
        f"ImportError: farwrite: the Python module needs C ABI {needed()} of Farwrite, and this"
        f" process has loaded Farwrite {VERSION}, which has C ABI {C_ABI}, from {library}; start it"
        " without another Farwrite's library: env -u LD_PRELOAD -u LD_LIBRARY_PATH python3; or, if"
        " that file is the installed one, install Farwrite again\n"
    ) in run_with(library, sys.executable, "-c", "import farwrite")


def test_a_cpp_program_that_opens_a_device_is_told_to_compile_again(
    library: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    config = (sys.executable, "-m", "farwrite", "config", "--cflags", "--libs")
    flags = shlex.split(subprocess.check_output(config, text=True))
    command = ("g++", "-std=c++17", "-o", program, "-x", "c++", "-", *flags)
    subprocess.run(command, input=PROGRAM, check=True, text=True)
    assert run_with(library, program) == (
        f"open a device: the program needs C ABI {needed()} of Farwrite, and has loaded the library"
        f" of Farwrite {VERSION}, which has C ABI {C_ABI}; compile the program with that Farwrite's"
        " headers, whose flags this prints: farwrite config --cflags --libs\n"
    )
