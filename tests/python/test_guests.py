"""The runner of guests believes nothing but this run's exit status, and leaves nothing running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent.parent / "softroce" / "guests.py"
# Stands for QEMU and the guest in it: finds the shared folder, reads what it is told, does FAKE.
FAKE_QEMU = """#!/bin/bash
for word; do
  case $word in
    local,id=out,*) out=${word#*path=} out=${out%%,security*} ;;
    *guest=*) name=${word##*guest=} ;;
  esac
done
. "${out//,,/,}/$name.sh"
cd "${out//,,/,}"
eval "$FAKE"
"""
HANG = 'mkfifo "$GUEST_NAME"; read <>"$GUEST_NAME"'


class Runner:
    """Runs guests.py with a QEMU that does as the test says."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out, with a comma"
        self.image = folder / "image"
        self.qemu = self.image / "layer/usr/bin/qemu-system-x86_64"
        self.qemu.parent.mkdir(parents=True)
        self.qemu.write_text(FAKE_QEMU)
        self.qemu.chmod(0o755)

    def command(self, *words: str) -> list[str]:
        """The words that start the runner."""
        command = [sys.executable, str(RUNNER), __file__, "--accel", "tcg", *words]
        return [*command, "--out", str(self.out), "--image", str(self.image)]

    def __call__(self, fake: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end, its guests doing what `fake` says."""
        return subprocess.run(
            self.command(*words),
            env={**os.environ, "FAKE": fake},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def running(self) -> list[str]:
        """What runs from the image or for it; a process that is gone has no words."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().decode(errors="replace")
                if str(self.image) in words:
                    found.append(words)
        return found


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_passes_on_what_each_guest_says_and_ends_with(runner: Runner) -> None:
    told = 'echo "hello from $GUEST_NAME to $GUEST_PEER_IP"; echo 0 >"$GUEST_STATUS"'
    ran = runner(told, "--pair")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "a| hello from a to 10.9.0.2" in ran.stdout
    assert "b| hello from b to 10.9.0.1" in ran.stdout

    ran = runner('[ $GUEST_NAME = a ]; echo $? >"$GUEST_STATUS"', "--pair")
    assert ran.returncode == 1
    assert "b ended with 1" in ran.stdout and "a ended" not in ran.stdout


def test_does_not_believe_qemu_or_an_earlier_run(runner: Runner) -> None:
    assert runner('echo 0 >"$GUEST_STATUS"').returncode == 0
    ran = runner("exit 0")
    assert ran.returncode == 1
    assert "a ended with no exit status" in ran.stdout


def test_kills_guests_that_do_not_end_in_time(runner: Runner) -> None:
    ran = runner(HANG, "--pair", "--limit", "1")
    assert ran.returncode == 1
    assert ran.stdout.count("ended with nothing after 1 s") == 2
    assert not runner.running()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_takes_its_guests_along(runner: Runner, number: signal.Signals) -> None:
    with subprocess.Popen(
        runner.command("--pair"),
        env={**os.environ, "FAKE": f"echo up; {HANG}"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        up = (line for line in process.stdout if line.endswith("| up\n"))
        assert next(up) and next(up)
        process.send_signal(number)
        assert process.wait(20) != 0
    # After SIGKILL it is the kernel that ends them, and it takes a moment.
    while runner.running():
        time.sleep(0.02)


def test_spares_a_folder_that_is_not_its_own(runner: Runner) -> None:
    runner.out.mkdir()
    (runner.out / "thesis.txt").write_text("years of work")
    ran = runner('echo 0 >"$GUEST_STATUS"')
    assert ran.returncode == 1
    assert "give another --out" in ran.stderr
    assert (runner.out / "thesis.txt").exists()


def test_says_that_there_is_no_qemu(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.qemu.unlink()
    monkeypatch.setenv("PATH", "/nowhere")
    ran = runner("")
    assert ran.returncode == 77
    assert "no QEMU" in ran.stdout
