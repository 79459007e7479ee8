"""Runs what `.ci/run` leaves to the night, and ends with a table of it.

    python tools/nightly.py [LANE...]        all lanes by default; `make nightly`

A lane that fails stops no other lane. Each writes its output to build/nightly/LANE.log. Together
the budgets are at most three and a half hours, on two quiet cores. A shared machine takes up to
twice as long.
After twice its budget a lane is killed with its process group, and counts as failed. The table is
also in build/nightly/nightly.json. The exit status is 1 if a lane failed, and 130 after Ctrl-C,
SIGTERM or SIGHUP, which end the lane and print the table of what ran.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from check_skips import Case, cases

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 2
"""A lane is killed after this many times its budget."""
GRACE_SECONDS = 10.0
"""A lane that is over its bound has this long to end its processes after SIGINT."""
NAMES_SHOWN = 10


class Lane(NamedTuple):
    """A line of bash, and the seconds that it takes at most on two quiet cores."""

    name: str
    budget: float
    command: str


SKIPS = "python tools/check_skips.py"
PROGRAMS = "programs"
"""The lane of random programs, whose log ends with what they never reached."""

# The first lane builds what several others use.
LANES = (
    Lane("test", 1200, "make test"),
    Lane("test-slow", 600, "make grpc grpc-programs test-slow"),
    Lane(
        "nightly",
        300,
        "pytest -q -m nightly --ignore tests/python/test_bare.py --ignore tests/python/matrix"
        " --ignore tests/python/wheels"
        " --junit-xml=build/nightly/results/nightly.xml"
        f" && {SKIPS} build/nightly/results/nightly.xml",
    ),
    Lane(
        "bare",
        400,
        "pytest -q -m nightly --junit-xml=build/nightly/results/bare.xml tests/python/test_bare.py"
        f" && {SKIPS} build/nightly/results/bare.xml",
    ),
    Lane(
        "matrix",
        1050,
        "pytest -q -m nightly -n 2 --timeout 1800 --junit-xml=build/nightly/results/matrix.xml"
        f" tests/python/matrix && {SKIPS} build/nightly/results/matrix.xml",
    ),
    Lane(
        "wheels",
        2400,
        "tools/build_python.sh free-threaded build/wheels/python3.13t && make wheels"
        ' WHEELS="cp311-x86_64 cp312-abi3-x86_64 cp311-aarch64 cp312-abi3-aarch64 cp313t-x86_64"'
        " && make plugin grpc-programs && pytest -q -m nightly"
        " --junit-xml=build/nightly/results/wheels.xml"
        f" tests/python/wheels && {SKIPS} build/nightly/results/wheels.xml",
    ),
    Lane("lint", 220, "make lint LINT=all"),
    Lane("apart", 600, "tools/build_apart.sh"),
    Lane(
        "interface",
        120,
        f"tools/run_cpp_tests.sh release interface && {SKIPS} build/release/results/*.xml",
    ),
    Lane("asan", 400, "make test-asan"),
    Lane("tsan", 550, "make test-tsan"),
    Lane("grpc-asan", 150, "make test-sanitized SANITIZED_LANES=grpc_asan"),
    Lane("plugin-asan", 250, "make test-sanitized SANITIZED_LANES=plugin_asan"),
    Lane("grpc-tsan", 150, "make test-sanitized SANITIZED_LANES=grpc_tsan"),
    Lane(
        "adversary",
        300,
        "FARWRITE_ADVERSARY_SEEDS=100000 build/release/tests/farwrite_unit_tests --gtest_brief=1"
        " --gtest_filter='*Adversary*' --gtest_output=xml:build/nightly/results/adversary.xml"
        f" && {SKIPS} build/nightly/results/adversary.xml",
    ),
    Lane("verbs", 900, 'make verbs-test VERBS_LANES="bandwidth large siw"'),
    Lane("fuzz", 500, "make fuzz FUZZ_SECONDS=30"),
    Lane(PROGRAMS, 2100, "make random-programs PROGRAM_MINUTES=30"),
    Lane("soak", 400, "make soak SOAK_TRANSFERS=3000000"),
)


@dataclass
class Ran:
    """What a lane did. The tests are those of the result files that it wrote."""

    lane: str
    seconds: float
    budget: float
    verdict: str
    ok: bool
    passed: int
    failed: list[str] = field(default_factory=list)


def results(root: Path, since: float) -> Iterator[Case]:
    """Yield the tests of the result files that were written since then."""
    for path in sorted(root.glob("build/**/results/*.xml")):
        if path.stat().st_mtime < since:
            continue
        try:
            yield from cases(path)
        except ElementTree.ParseError:
            yield Case(f"{path}: cut off", None, failed=True)  # its program was killed


def end(process: subprocess.Popen[bytes]) -> None:
    """Let a lane's process group clean up, and kill what is left of it after GRACE_SECONDS."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(lane: Lane, folder: Path, root: Path = ROOT) -> Ran:
    """Run a lane to its end, or kill it at its bound; nothing of its process group outlives it."""
    began = time.time()
    log = folder / f"{lane.name}.log"
    environment = dict(os.environ, PATH=f"{root}/.venv/bin:{os.environ['PATH']}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", lane.command],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        over = False
        try:
            process.wait(PATIENCE * lane.budget)
        except subprocess.TimeoutExpired:
            over = True
        finally:
            end(process)
            status = process.wait()
    tests = list(results(root, began))
    failed = [case.test for case in tests if case.failed]
    passed = sum(case.skip is None and not case.failed for case in tests)
    verdict = "ok"
    if over:
        verdict = f"killed after {PATIENCE * lane.budget:g} s"
    elif failed:
        verdict = f"{len(failed)} of {len(failed) + passed} tests failed"
    elif status != 0:
        verdict = f"failed with status {status}"
    ok = verdict == "ok"
    return Ran(lane.name, round(time.time() - began, 1), lane.budget, verdict, ok, passed, failed)


def table(ran: Sequence[Ran], folder: Path) -> str:
    """Return the table, and below it where to look for what failed."""
    width = max(len("total"), *(len(one.lane) for one in ran))
    lines = [
        f"{one.lane:{width}} {one.seconds:6.0f} s of {one.budget:5.0f} s {one.passed:6d} passed  "
        + one.verdict
        for one in ran
    ]
    bad = [one for one in ran if not one.ok]
    seconds, budget = sum(one.seconds for one in ran), sum(one.budget for one in ran)
    verdict = f"{len(bad)} of {len(ran)} lanes failed" if bad else "ok"
    passed = sum(one.passed for one in ran)
    lines.append(
        f"{'total':{width}} {seconds:6.0f} s of {budget:5.0f} s {passed:6d} passed  {verdict}"
    )
    for one in bad:
        lines.append(f"{one.lane}: see {folder / one.lane}.log")
        lines += [f"  {name}" for name in one.failed[:NAMES_SHOWN]]
        if more := one.failed[NAMES_SHOWN:]:
            lines.append(f"  and {len(more)} more")
    return "\n".join(lines)


def never_reached(log: Path) -> str:
    """Return the end of the log of random programs: how many ran, and what none of them reached."""
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    last = max((n for n, line in enumerate(lines) if "programs went well" in line), default=None)
    return "" if last is None else "\n".join(lines[last:])


def run_all(lanes: Sequence[Lane], folder: Path, root: Path = ROOT) -> int:
    """Run the lanes in turn, write their table, and return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    ran: list[Ran] = []
    status = 0
    try:
        for number, lane in enumerate(lanes, 1):
            print(f"[{number}/{len(lanes)}] {lane.name}: {lane.command}", flush=True)
            try:
                ran.append(run(lane, folder, root))
            except OSError as error:  # a full disk, or a log that cannot be opened
                ran.append(Ran(lane.name, 0.0, lane.budget, str(error), ok=False, passed=0))
            print(f"    {ran[-1].seconds:.0f} s, {ran[-1].verdict}", flush=True)
            status = status or int(not ran[-1].ok)
    except KeyboardInterrupt:
        status = 130
    if ran:
        print(table(ran, folder), flush=True)
    if any(one.lane == PROGRAMS for one in ran):
        print(never_reached(folder / f"{PROGRAMS}.log"), flush=True)
    try:
        rows = json.dumps([asdict(one) for one in ran], indent=2)
        (folder / "nightly.json").write_text(rows + "\n")
    except OSError as error:
        print(f"nightly: {error}", file=sys.stderr)
        status = status or 1
    return status


def main() -> int:
    """Run the lanes that are named, or all; return the exit status."""
    about, _, details = str(__doc__).split("\n\n", 2)
    parser = argparse.ArgumentParser(
        description=about, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "lanes", nargs="*", metavar="LANE", help=" ".join(one.name for one in LANES)
    )
    named = parser.parse_args().lanes
    if unknown := set(named) - {one.name for one in LANES}:
        parser.error(f"no such lane: {', '.join(sorted(unknown))}")
    load = " ".join(f"{one:.2f}" for one in os.getloadavg())
    seed = os.environ.setdefault("TEST_SEED", str(int(time.time()) * 1000))
    print(f"nightly: {os.cpu_count()} processors, load {load}, TEST_SEED={seed}", flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(
            number, signal.default_int_handler
        )  # as Ctrl-C: ends the lane, prints the table
    chosen = [one for one in LANES if not named or one.name in named]
    return run_all(chosen, ROOT / "build" / "nightly")


if __name__ == "__main__":
    sys.exit(main())
