"""Writes docs/reference/options.md from farwrite.options_table.

    python tools/write_options_table.py [--check]

With --check, it writes nothing; the exit status is 1 if the file is not current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farwrite.options_table import HEADERS, rows

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "options.md"

INTRODUCTION = """\
# Options

For users who look up an option of a device, of the TensorFlow plug-in, of the commands or of the
build. `tools/write_options_table.py` makes this page from `src/core/option_table.cc` and
`python/farwrite/options_table.py`: change the texts there. `farwrite options` prints the same table and
the values that the environment sets.

- A keyword of `farwrite.Device` overrides its environment variable. The variable overrides the
  default.
- An empty variable counts as not set.
- If a variable cannot be read, no device opens, and the `InvalidArgument` names the variable.
- In C++, the fields of `DeviceOptions` have the same names and defaults. A C++ program reads the
  environment itself, except for the options under "process".

Sizes are bytes, or `64K`, `512M`, `8G`, in powers of 1024. Times are seconds, or `20us`, `100ms`,
`5s`.

"""

ENDING = """
Next: [tuning.md](../how-to/tuning.md) for which of them to change, [rdma.md](../how-to/rdma.md) for
the `verbs_` options, [tensorflow.md](tensorflow.md) for the plug-in.
"""


def text() -> str:
    """Make the file's text."""
    lines = ["| " + " | ".join(HEADERS) + " |", "|" + "---|" * len(HEADERS)]
    for name, variable, where, kind, default, meaning in rows():
        cells = (_code(name), _code(variable), where, kind, _code(default), meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return INTRODUCTION + "\n".join(lines) + "\n" + ENDING


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
