"""`import farwrite` is quick: a name's module is imported at its first use, wherever that comes."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing

import pytest

import farwrite as fw


def said(script: str, *arguments: str) -> list[str]:
    """Return the words that a program prints, which must end well within a minute."""
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Error" not in ended.stderr
    return ended.stdout.split()


def test_threads_may_use_names_of_the_package_first_at_once() -> None:
    script = """
import sys, threading, farwrite
sys.setswitchinterval(1e-5)
names, start, found = farwrite.__all__, threading.Barrier(8), []
def use(first):
    start.wait()
    found.append({name: getattr(farwrite, name) for name in names[first:] + names[:first]})
threads = [threading.Thread(target=use, args=(5 * first,)) for first in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), all(each == found[0] for each in found), len(found[0]) == len(names))
"""
    for _ in range(4):
        assert said(script) == ["8", "True", "True"]


@pytest.mark.parametrize("delay", ["0", "0.01", "0.03", "0.06"])
def test_a_child_may_be_forked_while_another_thread_uses_a_name_first(delay: str) -> None:
    script = """
import os, signal, sys, threading, time, farwrite
threading.Thread(target=lambda: farwrite.Device).start()
time.sleep(float(sys.argv[1]))
child = os.fork()
if child == 0:
    signal.alarm(20)
    print("child:", farwrite.Device.__name__, flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert said(script, delay) == ["child:", "Device", "0"]


def test_without_a_descriptor_a_first_use_says_what_to_raise() -> None:
    script = """
import os, resource, farwrite
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    farwrite.Device
except farwrite.ResourceExhausted as error:
    for each in held: os.close(each)
    print("ulimit" in str(error), farwrite.Device.__name__)
"""
    assert said(script) == ["True", "Device"]


def test_what_a_program_registers_at_its_end_still_finds_its_device_open() -> None:
    script = """
import atexit, farwrite as fw
atexit.register(lambda: print("open:", device.stats().channels_open))
device = fw.Device()
"""
    assert said(script) == ["open:", "0"]


@pytest.mark.parametrize("kind", [fw.Channel, fw.Device, fw.TensorReceiver, fw.TensorSender])
def test_annotations_name_what_their_module_has(kind: type) -> None:
    for name, each in inspect.getmembers(kind):
        function = each.fget if isinstance(each, property) else each
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            assert typing.get_type_hints(function) is not None
