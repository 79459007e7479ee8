"""Fails if a source uses a lock of the standard library, which clang's analysis does not see.

Nothing in `src/` does so but `src/core/mutex.h`, whose Mutex, Lock and CondVar say what they guard,
and `src/python`, which uses nothing of the library but its public headers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = "src/core/mutex.h"
OVER_THE_BORDER = "src/python/"
RAW = re.compile(
    r"\bstd::((?:recursive_|shared_)?(?:timed_)?mutex|condition_variable(?:_any)?"
    r"|(?:unique|shared|scoped)_lock|lock_guard)\b"
)


def faults(files: Mapping[str, str]) -> list[str]:
    """Return a line for each lock of the standard library; `files`: text by path."""
    return [
        f"{path}:{number}: std::{found[1]}; {OURS} has the one that the compiler checks"
        for path, text in files.items()
        if path != OURS and not path.startswith(OVER_THE_BORDER)
        for number, line in enumerate(text.splitlines(), 1)
        if (found := RAW.search(line.partition("//")[0]))
    ]


def main() -> int:
    """Print each fault; return the exit status."""
    sources = [*(ROOT / "src").rglob("*.h"), *(ROOT / "src").rglob("*.cc")]
    found = faults({str(path.relative_to(ROOT)): path.read_text() for path in sorted(sources)})
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
