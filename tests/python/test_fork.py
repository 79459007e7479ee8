"""A forked child reads its parent's arrays, gets fw.Forked, and leaves the device alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

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


READ = """
    import numpy as np
    import time
    SIZE = 100_000
    mine = device.publish("mine", device.allocate(SIZE)).array
    mine[:] = 1
    landed = far.publish("landed", far.allocate(SIZE)).array
    near.write(np.full(SIZE, 2, "uint8"), near.lookup("landed")).wait()
    outbox = other.publish("outbox", other.allocate(SIZE)).array
    outbox[:] = 3
    peers = near.lookup("outbox").alias()

    def total(name):
        return int(ARRAYS[name].sum())

    def overwrite(name):
        try:
            ARRAYS[name][:] = 9
        except ValueError:  # a peer's array is read-only
            pass
        return name, total(name)

    ARRAYS = {"mine": mine, "landed": landed, "peers": peers}
    EXPECTED = {"mine": SIZE, "landed": 2 * SIZE, "peers": 3 * SIZE}

    def held_back():
        return device.stats().send.held_back
    """


def test_a_pool_reads_arrays_and_writes_into_nobodys() -> None:
    body = """
    with multiprocessing.get_context("fork").Pool(2) as pool:
        names = sorted(ARRAYS)
        assert pool.map_async(total, names).get(30) == [EXPECTED[name] for name in names]
        pool.map_async(overwrite, names * 10).get(30)
    assert {name: total(name) for name in names} == EXPECTED
    assert int(outbox.sum()) == 3 * SIZE
    """
    _run(textwrap.dedent(READ) + textwrap.dedent(body) + textwrap.dedent(CHECK))


def test_what_a_pool_reads_is_not_used_again_before_it_ends() -> None:
    body = """
    device.unpublish("mine")
    other.unpublish("outbox")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        del mine, outbox, peers, ARRAYS["mine"], ARRAYS["peers"]
        assert SIZE <= held_back() < 2 * SIZE
        for turn in range(200):
            for owner in (device, other):
                owner.allocate(SIZE).array[:] = 9
        assert SIZE <= held_back() < 2 * SIZE, "what is made later is not held back"
        assert pool.apply_async(total, ["mine"]).get(30) == EXPECTED["mine"]
        assert pool.apply_async(total, ["peers"]).get(30) == EXPECTED["peers"]
        pool.close()
        pool.join()
    give_up = time.monotonic() + 20
    while held_back() or near.stats().leases_held:
        assert time.monotonic() < give_up
        time.sleep(0.01)
    """
    _run(textwrap.dedent(READ) + textwrap.dedent(body) + textwrap.dedent(CHECK))


OWN = """
    import multiprocessing, os, sys
    import farwrite as fw
    parents = fw.Device(fabrics=[sys.argv[1]])

    def serve(written):
        global device, channel  # open until the process ends
        device = fw.Device(fabrics=[sys.argv[1]])
        os.write(written, device.endpoint.encode() + b"\\n")
        channel = device.accept(20)
        channel.notify(7).wait(20)

    def fork(serves):
        child = os.fork()
        if child == 0:
            serves()
            sys.exit(0)  # runs destructors and atexit handlers
        return lambda: os.waitpid(child, 0)[1]

    def fork_pool_process(serves):
        child = multiprocessing.get_context("fork").Process(target=serves)
        child.start()
        return lambda: (child.join(), child.exitcode)[1]

    read, written = os.pipe()
    for start in (fork, lambda serves: fork(lambda: fork(serves)()), fork_pool_process):
        join = start(lambda: serve(written))
        channel = parents.connect(os.read(read, 100).decode().strip())
        assert channel.wait_notification(20).tag == 7
        try:
            channel.wait_notification(20)
        except fw.Error as error:
            print(type(error).__name__)
        assert join() == 0
    """


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_the_end_of_a_child_closes_the_devices_that_it_opened(fabric: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(OWN), fabric],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "Unavailable\n" * 3
