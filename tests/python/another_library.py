"""A library that takes the place of Farwrite's and has another version of the C ABI."""

from __future__ import annotations

import subprocess
from pathlib import Path

C_ABI = 99
VERSION = "9.8.7"
SOURCE = f"""
unsigned fw_abi_version(void) {{ return {C_ABI}; }}
const char* fw_version(void) {{ return "{VERSION}"; }}
"""


def build_library(folder: Path) -> Path:
    """Compile it into a folder, as libfarwrite.so; return its path."""
    library = folder / "libfarwrite.so"
    command = ("gcc", "-shared", "-fPIC", "-o", library, "-x", "c", "-")
    subprocess.run(command, input=SOURCE, check=True, text=True)
    return library
