"""The wheels of `make wheels` in other Debians: their C library, their Python, no tools.

Those for aarch64 run under qemu-user, whose threads see stores in the order of this processor: what
an ARM processor may reorder is not tested.

Debian 11's Python 3.9 is older than what Farwrite supports, so that it gets one that is built.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from build_wheels import WHEELS
from wheels.environments import ROOT, call, file_of
from wheels.systems import DEBIAN_11, SYSTEMS, System, run_in, unpack, unpack_python

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2400)]

START = """
import os, sys
os.chdir("/opt")
sys.path.insert(0, "/opt")
os.environ["PYTHONPATH"] = "/opt"  # of what it starts
PYTHON = {interpreter}
"""

IMPORTS = "import numpy, farwrite.box"  # compiled once: it takes an emulator half a minute

EXAMPLES = """
import subprocess, sys
receiver = subprocess.Popen([*PYTHON, "receiver.py"], stdout=subprocess.PIPE, text=True)
sender = subprocess.run([*PYTHON, "sender.py"], timeout=180)
assert sender.returncode == 0
print(receiver.communicate(timeout=180)[0].strip())
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
    command = [*PYTHON, "-c", SERVE, fabric]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:
        with fw.box.connect(server.stdout.readline().strip(), fabrics=[fabric]) as box:
            weights = box.create("weights", 1000, dtype="float32")
            weights.write(np.full(1000, 2, "float32"))
            weights.accumulate(np.ones(1000, "float32"))
            assert (weights.read() == 3).all()
        server.communicate("\\n", timeout=180)
    assert server.returncode == 0
    print(fabric)
"""


PEERS = """
import subprocess
import numpy as np
import farwrite as fw

FAR = '''
import sys, numpy as np, farwrite as fw
with fw.Device(fabrics=sys.argv[1:]) as device:
    print(device.endpoint, flush=True)
    with device.accept(120) as channel:
        inbox = channel.publish("inbox", channel.allocate((500, 1000), "float64"))
        expected = np.arange(5e5).reshape(500, 1000)
        for k in range(20):
            assert channel.wait_notification(60).tag == k
            assert (inbox.array == expected + k).all(), k
            channel.notify(k).wait()
        for k in range(200):
            assert channel.wait_notification(60).tag == k
            channel.notify(k).wait()
        receiver = fw.TensorReceiver(channel, "edge")
        assert receiver.receive(timeout=60).sum() == 7
        sys.stdin.readline()
'''
for fabric in ("shm", "tcp"):
    command = [*PYTHON, "-c", FAR, fabric]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as far:
        endpoint = far.stdout.readline().strip()
        with fw.Device(fabrics=[fabric]) as device, device.connect(endpoint) as channel:
            inbox = channel.lookup("inbox")
            source = np.arange(5e5).reshape(500, 1000)
            for k in range(20):
                channel.write(source + k, inbox, notify=k).wait()
                assert channel.wait_notification(60).tag == k
            for k in range(200):
                channel.notify(k).wait()
                assert channel.wait_notification(60).tag == k
            fw.TensorSender(channel, "edge").send(np.ones(7, "float16"))
            assert fabric in str(device.stats().choices)
            far.communicate("\\n", timeout=180)
    assert far.returncode == 0
    print(fabric)
"""

DEATH = """
import signal, subprocess
import numpy as np
import farwrite as fw

FAR = '''
import signal, sys, farwrite as fw
with fw.Device(fabrics=sys.argv[1:]) as device:
    print(device.endpoint, flush=True)
    with device.accept(120) as channel:
        channel.publish("inbox", channel.allocate(8))
        signal.pause()
'''
for fabric in ("shm", "tcp"):
    command = [*PYTHON, "-c", FAR, fabric]
    with subprocess.Popen(command, stdout=-1, text=True) as far:
        endpoint = far.stdout.readline().strip()
        with fw.Device(fabrics=[fabric]) as device, device.connect(endpoint) as channel:
            channel.lookup("inbox")
            far.send_signal(signal.SIGKILL)
            try:
                channel.wait_notification(60)
            except fw.PeerDead:
                print(fabric)
"""


@pytest.fixture(
    scope="module",
    params=SYSTEMS,
    ids=lambda one: f"{one.suite}-{one.python}-{one.wheel}",
)
def system(request: pytest.FixtureRequest) -> System:
    """A system with Python, the wheel, NumPy and the README's programs in /opt."""
    system: System = request.param
    unpack_python(system)
    (wheel,) = (each for each in WHEELS if each.name == system.wheel)
    folder = system.root / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    pip = (ROOT / ".venv/bin/pip", "install", "-q", "--disable-pip-version-check")
    version = system.python.removeprefix("python")
    words = ("--python-version", version, "--only-binary=:all:", "--target", folder)
    platforms = [f"--platform=manylinux_2_{minor}_{wheel.processor}" for minor in (17, 27, 28)]
    call(*pip, *words, *platforms, file_of(wheel))
    for name in ("receiver", "sender"):
        shutil.copy(ROOT / "examples" / f"{name}.py", folder)
    run_python(system, IMPORTS)
    return system


def run_python(system: System, text: str) -> str:
    start = START.format(interpreter=system.interpreter)
    return run_in(system, *system.interpreter, "-c", start + text)


def test_the_ten_lines_of_the_readme_run(system: System) -> None:
    assert float(run_python(system, EXAMPLES)) == 1024 * 1024


def test_a_box_serves_over_shm_and_tcp(system: System) -> None:
    assert run_python(system, BOX).split() == ["shm", "tcp"]


def test_two_processes_write_and_notify_over_shm_and_tcp(system: System) -> None:
    assert run_python(system, PEERS).split() == ["shm", "tcp"]


def test_the_death_of_a_peer_is_an_error(system: System) -> None:
    assert run_python(system, DEATH).split() == ["shm", "tcp"]


def test_sigterm_ends_all_that_runs_in_a_system(system: System) -> None:
    """An emulator that is the first process of a namespace would not die of it."""
    sleep = "import time; print(flush=True); time.sleep(120)"
    command = [ROOT / "tools/run_in_root.sh", system.root, *system.interpreter, "-c", sleep]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline() == b"\n"
        os.killpg(ran.pid, signal.SIGTERM)
        assert ran.wait(timeout=60) != 0
        assert ran.stdout.read() == b""


def test_a_c_program_runs_on_debian_11(tmp_path: Path) -> None:
    unpack(DEBIAN_11, "libstdc++-10-dev", "dash")
    root = DEBIAN_11.root
    folder = root / "opt"
    shutil.rmtree(folder, ignore_errors=True)
    package = ROOT / ".venv/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps"
    (wheel,) = (each for each in WHEELS if each.name == "cp311-x86_64")
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
    said = run_in(DEBIAN_11, "sh", "-c", "/opt/receiver & /opt/sender && wait")
    assert float(said) == 1024 * 1024
