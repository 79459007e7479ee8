"""What libfarwrite.so exports: the functions of the C ABI's headers, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import farwrite

PACKAGE = Path(farwrite.__file__).parent


def exported() -> set[str]:
    """Return the names, those of C++ as they are written in a program."""
    library = PACKAGE / "libfarwrite.so"
    command = ["nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", str(library)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # NAME TYPE VALUE SIZE, and a name of C++ has spaces.
    return {re.sub(r" [A-Za-z] [0-9a-f]+( [0-9a-f]+)?$", "", line) for line in listed.splitlines()}


def declared() -> set[str]:
    """Return the functions that the headers of the C ABI declare."""
    headers = PACKAGE / "include" / "farwrite"
    texts = [header.read_text() for header in headers.glob("c_*.h")]
    return set(re.findall(r"^FW_API [^;(]*?(fw_\w+)\(", "\n".join(texts), re.MULTILINE))


def test_the_names_are_those_of_the_headers() -> None:
    """A function that is declared and not defined shows here, and a name of C++."""
    assert len(declared()) > 50
    assert exported() == declared()
