"""Runs the lanes of `make verbs-test` and writes their results to build/verbs/results.

    python tests/softroce/verbs_test.py [--accel auto|kvm|tcg] [LANE...]

A lane is a script in this folder, which says in one line each what is run, on one kind of device.
Each of its steps becomes a test case LANE.GUEST.STEP beside what GoogleTest wrote in the guest, for
tools/check_skips.py. Where no guest can run, every lane is one skipped test.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import guests

HERE = Path(__file__).resolve().parent
OUT = guests.CHECKOUT / "build" / "verbs"
RESULTS = OUT / "results"
BUILD_PAYLOADS = "from farwrite_bench.grpc.build import build; print(build())"
# Asked of the Python that has Farwrite; the guests do not know the user's cache.
FIND_PLUGIN = "from farwrite.plugin.build import ensure_built; print(ensure_built())"


class Lane(NamedTuple):
    """A script and the guests it needs."""

    name: str
    script: str
    device: str
    pair: bool
    memory: int  # MiB for each guest
    cpus: int
    limit: float  # seconds


Case = tuple[str, float, str, str]
"""A test, its seconds, "passed", "failure" or "skipped", and a message."""

LANES = (
    Lane("one_guest", "one_guest.sh", "rxe0", pair=False, memory=4096, cpus=2, limit=1000),
    Lane("two_guests", "two_guests.sh", "rxe0", pair=True, memory=1536, cpus=2, limit=600),
    Lane("tensorflow", "tensorflow.sh", "rxe0", pair=True, memory=2048, cpus=1, limit=300),
    Lane("bandwidth", "bandwidth.sh", "rxe0", pair=True, memory=1536, cpus=2, limit=1600),
    Lane("large", "large.sh", "rxe0", pair=False, memory=4096, cpus=2, limit=1300),
    Lane("siw", "two_guests.sh", "siw0", pair=True, memory=1536, cpus=2, limit=600),
)
# What is run where no lane is named. bandwidth and large take minutes, and siw builds its module.
USUAL = ("one_guest", "two_guests", "tensorflow")


def write_results(lane: str, cases: list[Case]) -> None:
    """Write a JUnit file."""
    suite = ElementTree.Element("testsuite", name=lane)
    for name, seconds, kind, message in cases:
        case = ElementTree.SubElement(
            suite, "testcase", classname=lane, name=name, time=f"{seconds:.3f}"
        )
        if kind != "passed":
            ElementTree.SubElement(case, kind, message=message)
    ElementTree.ElementTree(suite).write(RESULTS / f"{lane}.xml")


def prepare(siw: bool) -> str:
    """Have what the guests boot; return why that cannot be, or nothing."""
    script = [str(HERE / "prepare.sh"), *(["--siw"] if siw else [])]
    with subprocess.Popen(script, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            said.append(line.strip())
    if process.returncode not in (0, guests.CANNOT):
        sys.exit(process.returncode)
    # The last line says what is missing, the one before it usually why.
    return "; ".join(said[:-3:-1]) if process.returncode == guests.CANNOT else ""


def note_plugin() -> None:
    """Write where the TensorFlow plug-in is to build/verbs/plugin, compiling it if need be."""
    words = [str(guests.CHECKOUT / ".venv/bin/python"), "-c", FIND_PLUGIN]
    found = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    (OUT / "plugin").write_text(found.stdout.splitlines()[-1])


def note_grpc() -> str:
    """Write where the gRPC program is to build/verbs/grpc_payloads; return why it cannot be."""
    note = OUT / "grpc_payloads"
    note.unlink(missing_ok=True)
    if subprocess.run(["tools/fetch_grpc.sh"], check=False).returncode != 0:
        return "gRPC 1.51.1 of Debian 12 is unavailable: tools/fetch_grpc.sh says why"
    subprocess.run(["tools/build_grpc.sh", ".venv"], check=True)
    words = [str(guests.CHECKOUT / ".venv/bin/python"), "-c", BUILD_PAYLOADS]
    built = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    note.write_text(built.stdout.splitlines()[-1])
    return ""


def steps_of(guest: str, out: Path) -> list[Case]:
    """Return what became of the steps of a guest."""
    steps = out / f"steps-{guest}"
    cases = []
    for line in steps.read_text().splitlines() if steps.exists() else ():
        name, code, limit, took = line.split("\t")
        kind = "passed" if code == "0" else "failure"
        message = f"exit status {code}, limit {limit} s"
        cases.append((f"{guest}.{name}", int(took) / 1000, kind, message))
    return cases


def run_lane(lane: Lane, accel: str) -> list[str]:
    """Run one lane and write its results; return a line for each of its failures."""
    print(f"== {lane.name} ({accel})", flush=True)
    out = OUT / lane.name
    shutil.rmtree(out, ignore_errors=True)
    plan = guests.Plan(
        script=HERE / lane.script,
        image=guests.IMAGE,
        out=out,
        device=lane.device,
        accel=accel,
        memory=lane.memory,
        cpus=lane.cpus,
        limit=lane.limit,
    )
    started = time.monotonic()
    endings = guests.run(plan, lane.pair)
    cases: list[Case] = []
    if any(status.startswith(guests.LOST) for status in endings.values()):
        # Now and then an emulated kernel breaks down, at boot or in its RDMA driver. What had
        # failed before stays a failure.
        print(f"== {lane.name} once more, because a guest was lost", flush=True)
        lost = [case for guest in endings for case in steps_of(guest, out) if case[2] != "passed"]
        cases = [(f"lost_{name}", took, kind, text) for name, took, kind, text in lost]
        kept = out.with_name(f"{lane.name}_lost")
        shutil.rmtree(kept, ignore_errors=True)
        out.rename(kept)
        endings = guests.run(plan, lane.pair)
    for guest, status in endings.items():
        cases += steps_of(guest, out)
        # Steps that were never come to are seen here alone.
        seconds = time.monotonic() - started
        kind = "passed" if status == "0" else "failure"
        cases.append((f"{guest}.end", seconds, kind, f"the lane ended with {status}"))
    write_results(lane.name, cases)
    for path in (out / "results").glob("*.xml"):
        shutil.copy(path, RESULTS / f"{lane.name}.{path.name}")
    return [f"{lane.name} {name}: {text}" for name, _, kind, text in cases if kind != "passed"]


def main() -> int:
    """Read the command line, run the lanes, print their times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lanes", nargs="*", metavar="LANE", help=f"default: {' '.join(USUAL)}")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    words = parser.parse_args()
    unknown = set(words.lanes) - {lane.name for lane in LANES}
    if unknown:
        parser.error(f"no lane {', '.join(sorted(unknown))}")
    lanes = [lane for lane in LANES if lane.name in (words.lanes or USUAL)]
    os.chdir(guests.CHECKOUT)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir(parents=True)
    reason = prepare(any(lane.device == "siw0" for lane in lanes))
    if reason:
        for lane in lanes:
            write_results(lane.name, [("guest", 0.0, "skipped", reason)])
        return 0  # tools/check_skips.py decides
    if any(lane.name == "tensorflow" for lane in lanes):
        note_plugin()
    if any(lane.script == "two_guests.sh" for lane in lanes):
        missing = note_grpc()
        if missing:
            print(f"two_guests: no step grpc: {missing}", flush=True)
            write_results("grpc", [("two_guests.grpc", 0.0, "skipped", missing)])
    accel = guests.working_accel(guests.IMAGE) if words.accel == "auto" else words.accel
    failures: list[str] = []
    times = []
    for lane in lanes:
        started = time.monotonic()
        failures += run_lane(lane, accel)
        times.append(f"{lane.name} {time.monotonic() - started:.0f} s")
    print(f"== {', '.join(times)}", flush=True)
    for failure in failures:
        print(f"FAILED {failure}", flush=True)
    return int(bool(failures))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
