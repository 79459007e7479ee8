"""The wheels of `make wheels` in other Debians, unpacked: their C library, their Python, no tools.

Debian 11's Python 3.9 is older than what Farwrite supports. There a C program uses the library.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from build_wheels import WHEELS
from wheels.environments import ROOT, call, file_of

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SUITES = {"bookworm": "cp311-x86_64", "trixie": "cp312-abi3-x86_64"}
"""Debian 12 has Python 3.11, and Debian 13 has 3.13."""

START = """
import os, sys
os.chdir("/opt")
sys.path.insert(0, "/opt")
os.environ["PYTHONPATH"] = "/opt"  # of what it starts
"""

EXAMPLES = """
import subprocess, sys
receiver = subprocess.Popen([sys.executable, "receiver.py"], stdout=subprocess.PIPE, text=True)
sender = subprocess.run([sys.executable, "sender.py"], timeout=60)
assert sender.returncode == 0
print(receiver.communicate(timeout=60)[0].strip())
"""

BOX = """
import subprocess, sys
import numpy as np
import farwrite as fw

SERVE = '''
import sys, farwrite as fw
with fw.box.serve(memory="64M", fabrics=sys.argv[1:]) as server:
    print(server.endpoint, flush=True)
    sys.stdin.readline()
'''
for fabric in ("shm", "tcp"):
    command = [sys.executable, "-c", SERVE, fabric]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:
        with fw.box.connect(server.stdout.readline().strip(), fabrics=[fabric]) as box:
            weights = box.create("weights", 1000, dtype="float32")
            weights.write(np.full(1000, 2, "float32"))
            weights.accumulate(np.ones(1000, "float32"))
            assert (weights.read() == 3).all()
        server.communicate("\\n", timeout=60)
    assert server.returncode == 0
    print(fabric)
"""


def unpacked(suite: str, *packages: str) -> Path:
    """Return the root folder of a Debian that has these packages and what they need."""
    root = ROOT / ".cache" / "roots" / suite
    words = ("--suite", suite, "--into", root, "--only", "*")
    call(ROOT / "tools/fetch_debs.sh", *words, *packages)
    return root


def run_in(root: Path, *command: str) -> str:
    return call(ROOT / "tools/run_in_root.sh", root, *command)


@pytest.fixture(scope="module", params=SUITES)
def root(request: pytest.FixtureRequest) -> Path:
    """A root with Python, the wheel, NumPy and the README's programs in /opt."""
    suite = request.param
    root = unpacked(suite, "python3", "libstdc++6")  # NumPy needs libstdc++6, Farwrite does not
    (wheel,) = (each for each in WHEELS if each.name == SUITES[suite])
    folder = root / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    version = run_in(root, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
    pip = (ROOT / ".venv/bin/pip", "install", "-q", "--disable-pip-version-check")
    words = ("--python-version", version.strip(), "--only-binary=:all:", "--target", folder)
    call(*pip, *words, file_of(wheel))
    for name in ("receiver", "sender"):
        shutil.copy(ROOT / "examples" / f"{name}.py", folder)
    return root


def run_python(root: Path, text: str) -> str:
    return run_in(root, "python3", "-c", START + text)


def test_the_ten_lines_of_the_readme_run(root: Path) -> None:
    assert float(run_python(root, EXAMPLES)) == 1024 * 1024


def test_a_box_serves_over_shm_and_tcp(root: Path) -> None:
    assert run_python(root, BOX).split() == ["shm", "tcp"]


def test_a_c_program_runs_on_debian_11(tmp_path: Path) -> None:
    root = unpacked("bullseye", "libstdc++-10-dev", "dash")
    folder = root / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    package = ROOT / ".venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps"
    (wheel,) = (each for each in WHEELS if each.name == SUITES["bookworm"])
    words = ("--python-version", "3.11", "--only-binary=:all:", "--target", tmp_path)
    call(*package, *words, file_of(wheel))
    folder.mkdir()
    shutil.copy(tmp_path / "farwrite" / "libfarwrite.so", folder)
    machine = "x86_64-linux-gnu"
    places = (root / "usr/lib" / machine, root / "usr/lib/gcc" / machine / "10")
    flags = (f"--sysroot={root}", *(f"{flag}{place}" for place in places for flag in ("-L", "-B")))
    for name in ("receiver", "sender"):
        call(
            *("gcc", *flags, f"-I{tmp_path}/farwrite/include", f"-L{folder}", "-o", folder / name),
            *(ROOT / "examples" / "c" / f"{name}.c", "-lfarwrite", "-Wl,-rpath,$ORIGIN"),
        )
    said = run_in(root, "sh", "-c", "/opt/receiver & /opt/sender && wait")
    assert float(said) == 1024 * 1024
