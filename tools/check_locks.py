"""Fails if a source uses a lock that clang's analysis or the check of lock ranks does not see.

Nothing in `src/` uses a lock of the standard library but `src/core/mutex.h`, whose Mutex, Lock and
CondVar say what they guard, and `src/python`, which uses the library by its public headers. Nothing
uses `std::condition_variable`: `src/core/steady_condition.h` says why. The compiler refuses a Mutex
without a rank. Its rank says nothing of mutexes that a thread may take in any order, and
`UNORDERED` lists those.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = "src/core/mutex.h"
CONDITION = "src/core/steady_condition.h"
OVER_THE_BORDER = "src/python/"
RAW = re.compile(
    r"\bstd::((?:recursive_|shared_)?(?:timed_)?mutex|(?:unique|shared|scoped)_lock|lock_guard)\b"
)
WALL_CLOCK = re.compile(r"\bstd::(condition_variable(?:_any)?)\b")
ANY_ORDER = re.compile(r"\bSiblings::kAnyOrder\b")
UNORDERED = {
    "src/core/lock_rank.cc": "the check itself",
    "src/device/mode_lock.h": "a handler may use another channel, and so run its handler",
    "src/box/reply_taker.h": "a callback of one client may post a change of another, whose handler "
    "is then changed",
    "src/box/server_state.h": "a server's close() runs handlers of its channels, and a handler may "
    "close a server",
}
"""Where mutexes of one rank and level may be held together in any order, and why."""


def faults(files: Mapping[str, str]) -> list[str]:
    """Return a line for each lock that is not checked; `files`: text by path."""
    found = []
    for path, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            code = line.partition("//")[0]
            if wait := WALL_CLOCK.search(code):
                found.append(f"{path}:{number}: std::{wait[1]}; {CONDITION} says why not")
            own = path in (OURS, CONDITION) or path.startswith(OVER_THE_BORDER)
            if not own and (raw := RAW.search(code)):
                found.append(
                    f"{path}:{number}: std::{raw[1]}; {OURS} has the one that the compiler checks"
                )
            if path not in UNORDERED and ANY_ORDER.search(code):
                found.append(
                    f"{path}:{number}: kAnyOrder; give each mutex a level, or add the file and the "
                    "reason to UNORDERED in tools/check_locks.py"
                )
    return found


def main() -> int:
    """Print each fault; return the exit status."""
    sources = [*(ROOT / "src").rglob("*.h"), *(ROOT / "src").rglob("*.cc")]
    found = faults({str(path.relative_to(ROOT)): path.read_text() for path in sorted(sources)})
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
