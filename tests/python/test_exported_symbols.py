"""What libfarwrite.so exports: the C ABI of its headers, and of C++ only Farwrite's own names."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import farwrite

PACKAGE = Path(farwrite.__file__).parent
KINDS = ("typeinfo for ", "typeinfo name for ", "vtable for ", "guard variable for ")


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


def test_the_c_names_are_those_of_the_headers() -> None:
    """A function that is declared and not defined shows here, and one that is not declared."""
    assert len(declared()) > 50
    assert {name for name in exported() if "::" not in name} == declared()


def test_the_names_of_cpp_are_farwrites_own() -> None:
    """A template of the standard library could take the place of the program's own."""
    names = {name for name in exported() if "::" in name}
    for kind in KINDS:
        names = {name.removeprefix(kind) for name in names}
    assert names, "no C++ name is exported: this test has lost its subject"
    assert [name for name in names if not re.match(r"(\S+ (const )?&? ?)?farwrite::", name)] == []
