"""The wheel of farwrite-grpc beside that of farwrite, which another compiler built."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from build_wheels import WHEELS
from debian_wheel import DEBIAN_11, DEBIAN_12, compiler_for, too_new
from farwrite.run.grpc_component import LIBRARIES, PACKAGE
from farwrite_bench.cluster.process import free_ports
from wheels.environments import PAIRS, ROOT, call, file_of, python_of, python_with

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

PROGRAMS = ROOT / "build/grpc/programs"
BLOCKS = 10 * 2**24
TWO_PROGRAMS = """
import os, signal, subprocess, sys
programs, port, folder, *path = sys.argv[1:]
os.environ["PYTHONPATH"] = ":".join(path)
def start(name, *options):
    run = [sys.executable, "-m", "farwrite", "run", "--grpc", *options, "--"]
    os.environ["FARWRITE_GRPC_STATS"] = f"{folder}/{name}.json"
    return subprocess.Popen([*run, f"{programs}/sum_{name}", port], start_new_session=True)
server = start("server")
try:
    ended = start("client", "--require").wait(100)
finally:
    os.killpg(server.pid, signal.SIGINT)
    assert server.wait(100) == 0
assert ended == 0, ended
for name in ("client", "server"):
    print(open(f"{folder}/{name}.json").read())
"""
"""A plain gRPC client, which fails unless its connection moves, and its server."""


@pytest.fixture(scope="module")
def component(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The wheel of farwrite-grpc."""
    folder = tmp_path_factory.mktemp("component")
    subprocess.run([sys.executable, ROOT / "tools/build_grpc_wheel.py", folder], check=True)
    (wheel,) = folder.glob("*.whl")
    yield wheel
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the programs, which know nothing of Farwrite."""
    for name in ("sum_client", "sum_server"):
        assert (PROGRAMS / name).is_file(), f"{PROGRAMS} has no {name}: run make grpc-programs"
    return PROGRAMS


def check(said: str) -> None:
    """Check what the client wrote, and the counters of both programs."""
    total, client, server = filter(None, said.splitlines())
    assert total == f"sum {2**24}"
    sent, received = json.loads(client), json.loads(server)
    assert (sent["upgraded"], sent["stayed"]) == (1, {})
    assert (received["upgraded"], received["stayed"]) == (1, {})
    assert received["received_bytes"] == sent["sent_bytes"] > BLOCKS
    assert received["aliased_bytes"] == sent["lent_bytes"] > BLOCKS - 2**20  # without their heads


def test_it_is_small_and_for_debian_12(component: Path, tmp_path: Path) -> None:
    assert component.name == f"farwrite_grpc-0.1.0-py3-none-{DEBIAN_12.platform}.whl"
    assert component.stat().st_size < 500_000
    call(sys.executable, "-m", "zipfile", "-e", component, tmp_path)
    compiler_for(DEBIAN_11)  # its libraries, which are too old for it
    for name in LIBRARIES:
        library = tmp_path / PACKAGE / name
        assert too_new(library, DEBIAN_12) == []
        assert "GLIBC_2.34" in too_new(library, DEBIAN_11)
    dynamic = call("readelf", "--dynamic", "--wide", tmp_path / PACKAGE / LIBRARIES[1])
    found = re.search(r"\(RUNPATH\) .*\[(.+)\]", dynamic)
    assert found is not None and "$ORIGIN/../farwrite" in found[1].split(":")


@pytest.fixture(params=PAIRS, ids=lambda pair: f"{pair[0].name}-on-3.{pair[1]}")
def python(request: pytest.FixtureRequest, component: Path) -> Iterator[Path]:
    """The Python of an environment with both wheels."""
    wheel, minor = request.param
    found = python_of(wheel, minor)
    if found is None:
        pytest.skip(f"the machine has no Python 3.{minor}")
    made = python_with(wheel, found)
    pip = (made, "-m", "pip", "-q", "--disable-pip-version-check")
    call(*pip, "install", component)
    yield made
    call(*pip, "uninstall", "--yes", component.name.partition("-")[0])  # others use it as well


def test_two_programs_use_it(python: Path, programs: Path, tmp_path: Path) -> None:
    flags = call(python, "-m", "farwrite", "config", "--grpc-libs", "--grpc-cflags").split()
    folder = Path(flags[0].removeprefix("-L"))
    assert folder.name == PACKAGE
    assert (Path(flags[-1].removeprefix("-I")) / "farwrite/grpc.h").is_file()
    port = str(free_ports(1)[0])
    check(call(python, "-c", TWO_PROGRAMS, programs, port, tmp_path))


@pytest.fixture
def debian_12(component: Path, programs: Path) -> Iterator[Path]:
    """A folder in Debian 12, unpacked: its own Python and gRPC, both wheels and the programs."""
    root = DEBIAN_12.root
    words = ("--suite", DEBIAN_12.suite, "--into", root, "--only", "*")
    packages = ("python3", "libstdc++6", "libgrpc++-dev")
    call(ROOT / "tools/fetch_debs.sh", *words, *packages)
    folder = root / "srv" / PACKAGE
    shutil.rmtree(folder, ignore_errors=True)
    (wheel,) = (each for each in WHEELS if each.name == "cp311-x86_64")
    pip = (ROOT / ".venv/bin/pip", "install", "-q", "--disable-pip-version-check")
    words = ("--python-version", "3.11", "--only-binary=:all:", "--target", folder)
    call(*pip, *words, file_of(wheel), component)
    for name in ("sum_client", "sum_server"):
        shutil.copy(programs / name, folder)
    yield folder
    shutil.rmtree(folder)


def test_two_programs_use_it_in_debian_12(debian_12: Path) -> None:
    inside = f"/{debian_12.relative_to(DEBIAN_12.root)}"
    command = ("python3", "-c", TWO_PROGRAMS, inside, "50051", "/tmp", inside)
    check(call(ROOT / "tools/run_in_root.sh", DEBIAN_12.root, *command))
