"""Prints where the minutes of a check went: tests, modules of tests, and compilers.

    python tools/times.py [--all] [FOLDER...]

Reads what the runs left in FOLDER (build/*): the JUnit files of GoogleTest and pytest in results/,
and Ninja's log. A file stays until the same tests run again, so results of earlier runs are among
them. Prints the ten slowest tests; with --all also every module of tests and every
target that was compiled. A test's seconds are those of the clock. Where pytest recorded it, `busy`
is the processor time of the test and of the processes that it waited for; the rest is waiting.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SLOWEST = 10


class Timed(NamedTuple):
    """One test: its module or suite, its name, and its seconds; `busy` is None if not recorded."""

    module: str
    name: str
    seconds: float
    busy: float | None


def tests(folder: Path) -> Iterator[Timed]:
    """Yield the tests of all result files below `folder`."""
    for path in sorted(folder.rglob("results/*.xml")):
        try:
            parsed = ElementTree.parse(path)
        except ElementTree.ParseError:
            continue  # its program was killed
        for case in parsed.iter("testcase"):
            name = f"{case.get('classname')}.{case.get('name')}"
            # GoogleTest's class is a suite; a file of results is a module then.
            python = case.get("file") is not None or "tests.python" in str(case.get("classname"))
            module = str(case.get("classname")) if python else path.stem
            busy = next(
                (
                    float(str(one.get("value")))
                    for one in case.iter("property")
                    if one.get("name") == "busy_seconds"
                ),
                None,
            )
            yield Timed(module, name, float(case.get("time") or 0), busy)


def compiled(folder: Path) -> dict[str, tuple[int, float]]:
    """Return the number of steps and their seconds for each target of Ninja's log."""
    steps: dict[str, tuple[float, float]] = {}
    log = folder / ".ninja_log"
    for line in log.read_text().splitlines()[1:] if log.exists() else ():
        begin, end, _, output, _ = line.split("\t")
        steps[output] = (int(begin) / 1e3, int(end) / 1e3)  # the newest one counts
    found: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for output, (begin, end) in steps.items():
        target = next((part for part in output.split("/") if part.endswith(".dir")), "links, stubs")
        count, seconds = found[target]
        found[target] = (count + 1, seconds + end - begin)
    return found


def main() -> None:
    """Print the tables."""
    about, _, details = str(__doc__).split("\n\n", 2)
    parser = argparse.ArgumentParser(
        description=about, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="print the modules and targets as well")
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER", help="default: build/*")
    arguments = parser.parse_args()
    folders = arguments.folders or sorted((ROOT / "build").glob("*"))

    found = [one for folder in folders for one in tests(folder)]
    print(f"slowest of {len(found)} tests:")
    for one in sorted(found, key=lambda one: -one.seconds)[:SLOWEST]:
        busy = "" if one.busy is None else f", busy {one.busy:.1f} s"
        print(f"  {one.seconds:6.1f} s  {one.name}{busy}")
    if not arguments.all:
        return
    modules: dict[str, list[Timed]] = defaultdict(list)
    for one in found:
        modules[one.module].append(one)
    print("modules of tests: seconds, of these busy, tests")
    for module, inside in sorted(modules.items(), key=lambda of: -sum(t.seconds for t in of[1])):
        seconds, busy = sum(t.seconds for t in inside), sum(t.busy or 0 for t in inside)
        print(f"  {seconds:7.1f} s {busy:7.1f} s {len(inside):5d}  {module}")
    print("compiled targets: seconds of all steps, steps")
    for folder in folders:
        for target, (count, seconds) in sorted(compiled(folder).items(), key=lambda of: -of[1][1]):
            print(f"  {seconds:7.1f} s {count:5d}  {folder.name}/{target.removesuffix('.dir')}")


if __name__ == "__main__":
    main()
