"""A forked child gets fw.Forked, ends cleanly, and leaves its parent's device alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SETUP = """
    import multiprocessing, os, sys, threading, warnings
    import farwrite as fw
    warnings.simplefilter("ignore", DeprecationWarning)
    device, other = fw.Device(), fw.Device()
    accepted = []
    thread = threading.Thread(target=lambda: accepted.append(other.accept(20)))
    thread.start()
    near = device.connect(other.endpoint)
    thread.join()
    far = accepted[0]
    array = device.publish("array", device.allocate(10))
    inbox = far.publish("inbox", far.allocate(10))
    remote = near.lookup("inbox")

    def use_all():
        calls = (
            lambda: device.allocate(10),
            lambda: device.accept(1),
            lambda: device.connect(other.endpoint, 1),
            lambda: device.publish("again", array),
            lambda: near.allocate(10),
            lambda: near.lookup("array", 1),
            lambda: near.notify(1).wait(1),
            lambda: near.write(bytes(10), remote).wait(1),
            lambda: near.flush().wait(1),
            lambda: near.wait_notification(1),
        )
        for call in calls:
            try:
                call()
            except fw.Forked as error:
                assert "fork" in str(error), error
            else:
                raise SystemExit("a call of a forked child did not raise")
        with fw.Device() as own:
            own.allocate(10)
    """

CHECK = """
    near.write(b"0123456789", remote, notify=3).wait()
    assert far.wait_notification(10).tag == 3
    assert inbox.array.tobytes() == b"0123456789"
    print("parent fine")
    """


def _run(script: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SETUP) + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "parent fine\n")


def test_a_child_of_os_fork_may_end_as_any_program() -> None:
    fork = """
    child = os.fork()
    if child == 0:
        use_all()
        sys.exit(0)  # runs destructors and atexit handlers
    assert os.waitpid(child, 0)[1] == 0
    """
    _run(textwrap.dedent(fork) + textwrap.dedent(CHECK))


def test_a_child_of_multiprocessing_may_end_as_any_program() -> None:
    fork = """
    child = multiprocessing.get_context("fork").Process(target=use_all)
    child.start()
    child.join()
    assert child.exitcode == 0
    """
    _run(textwrap.dedent(fork) + textwrap.dedent(CHECK))
