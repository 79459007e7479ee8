"""Writes docs/reference/options.md from farwrite.options_table.

    python tools/write_options_table.py [--check]

With --check, only says whether the file is what would be written; exit status 1 if it is not.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farwrite.options_table import HEADERS, rows

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"

INTRODUCTION = """\
# Options

Made by `tools/write_options_table.py` from `python/farwrite/options_table.py`: change it there.

A keyword of `farwrite.Device` beats its environment variable, and the variable beats the default.
An empty variable counts as not set. No device opens with a variable that cannot be read: the
`InvalidArgument` names it. In C++, the fields of `DeviceOptions` have the same names and defaults,
and the environment is left to the program, except for what stands under "process". `farwrite
options` prints this table, and what the environment sets.

Sizes are bytes, or `64K`, `512M`, `8G`, in powers of 1024. Times are seconds, or `20us`, `100ms`,
`5s`.

"""


def text() -> str:
    """Make the file's text."""
    lines = ["| " + " | ".join(HEADERS) + " |", "|" + "---|" * len(HEADERS)]
    for name, variable, where, kind, default, meaning in rows():
        cells = (_code(name), _code(variable), where, kind, _code(default), meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n"


def _code(cell: str) -> str:
    return f"`{cell}`" if cell and not cell.startswith("(") and cell != "none" else cell


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    if not check:
        FILE.write_text(text())
        return 0
    if FILE.read_text() == text():
        return 0
    print(f"{FILE} is not current: python tools/write_options_table.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
