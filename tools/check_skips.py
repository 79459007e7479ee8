"""Fails if a test was skipped without leave, if a file has no tests, or if no test ran.

    python tools/check_skips.py [--none] RESULT.xml...

Reads the JUnit files that GoogleTest and pytest write. A skip is allowed when
tests/allowed_skips.txt lists the test with a reason; with --none, never.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

ALLOWED = Path(__file__).parent.parent / "tests" / "allowed_skips.txt"


class Case(NamedTuple):
    """One test of a result file; `skip` is the reason why it did not run, if it did not."""

    test: str
    skip: str | None
    failed: bool


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


def cases(path: Path) -> Iterator[Case]:
    """Yield the tests of a result file."""
    for case in ElementTree.parse(path).iter("testcase"):
        skip = None
        skipped = case.find("skipped")
        if skipped is not None:
            reason = skipped.get("message") or skipped.text or "no reason given"
            skip = " ".join(reason.split())
        elif case.get("status") == "notrun":
            skip = "disabled in the source"
        failed = case.find("failure") is not None or case.find("error") is not None
        yield Case(f"{case.get('classname')}.{case.get('name')}", skip, failed)


def main(paths: list[str]) -> int:
    """Print each skip without leave and the totals; return the exit status."""
    none = paths[:1] == ["--none"]
    patterns = [] if none else allowed_patterns(ALLOWED)
    paths = paths[1:] if none else paths
    files = {path: list(cases(Path(path))) for path in paths}
    results = [case for found in files.values() for case in found]
    empty = [path for path, found in files.items() if not found]
    skipped = [case for case in results if case.skip is not None]
    failed = [case for case in results if case.failed]
    passed = len(results) - len(skipped) - len(failed)
    refused = [s for s in skipped if not any(fnmatchcase(s.test, p) for p in patterns)]
    for case in refused:
        print(f"skipped without leave: {case.test}: {case.skip}")
    if refused and not none:
        print(f"make them run, or list them with a reason in tests/{ALLOWED.name}")
    for path in empty:
        print(f"no test in {path}")
    if passed + len(failed) == 0:
        print("no test ran")
    print(f"tests: {passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return int(bool(refused or failed or empty) or passed == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
