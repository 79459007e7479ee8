"""Fails if a test was skipped without leave, or if no test ran.

    python tools/check_skips.py RESULT.xml...

Reads the JUnit files that GoogleTest and pytest write. A skip is allowed when
tests/allowed_skips.txt lists the test with a reason.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ALLOWED = Path(__file__).parent.parent / "tests" / "allowed_skips.txt"


class Skip(NamedTuple):
    """A test that did not run, and why."""

    test: str
    reason: str


def allowed_patterns(path: Path) -> list[str]:
    """Return the patterns of the list; a line without a reason is an error."""
    patterns = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        pattern, _, reason = line.partition(" ")
        if not reason.strip():
            sys.exit(f"{path.name}:{number}: '{pattern}' has no reason; write one after it")
        patterns.append(pattern)
    return patterns


def cases(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each test of a result file with the reason of its skip, None if it ran."""
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if skipped is not None:
            yield name, (skipped.get("message") or skipped.text or "no reason given").strip()
        elif case.get("status") == "notrun":
            yield name, "disabled in the source"
        else:
            yield name, None


def main(paths: list[str]) -> int:
    """Print each skip without leave; return the exit status."""
    results = [case for path in paths for case in cases(Path(path))]
    if not any(reason is None for _, reason in results):
        print(f"no test ran, by {', '.join(paths) or 'no result file at all'}")
        return 1
    patterns = allowed_patterns(ALLOWED)
    skips = [Skip(name, reason) for name, reason in results if reason is not None]
    refused = [s for s in skips if not any(fnmatchcase(s.test, p) for p in patterns)]
    for skip in refused:
        print(f"skipped without leave: {skip.test}: {skip.reason}")
    if refused:
        print(f"make them run, or list them with a reason in tests/{ALLOWED.name}")
    print(f"tests: {len(results) - len(skips)} ran, {len(skips)} skipped")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
