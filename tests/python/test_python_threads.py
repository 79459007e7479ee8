"""The GIL is free while Farwrite waits or copies much, and Ctrl-C ends every wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import farwrite as fw
from conftest import Pair
from warm_python import WarmPython, run_python


def test_another_thread_runs_while_one_waits_for_a_notification(pair: Pair) -> None:
    # With the GIL held by the waiter, this thread could never raise what it waits for.
    timer = threading.Timer(0.1, lambda: pair.near.notify(7))
    timer.start()
    assert pair.far.wait_notification(20).tag == 7
    timer.join()


def test_another_thread_runs_while_one_looks_up(pair: Pair) -> None:
    timer = threading.Timer(0.1, lambda: pair.right.publish("late", pair.right.allocate(3, "int8")))
    timer.start()
    assert pair.near.lookup("late", 20).shape == (3,)
    timer.join()


def test_call_after_call_runs_in_one_thread_beside_the_main_thread(pair: Pair) -> None:
    pair.right.publish("wanted", pair.right.allocate(3, "int8"))
    before = len(os.listdir("/proc/self/task"))
    most = before
    for _ in range(300):
        pair.near.lookup("wanted", 20)
        most = max(most, len(os.listdir("/proc/self/task")))
    assert most <= before + 1


def test_another_thread_runs_while_one_connects(device: fw.Device) -> None:
    endpoint = device.endpoint
    device.close()
    opened: list[fw.Device] = []
    timer = threading.Timer(0.2, lambda: opened.append(fw.Device(listen=endpoint)))
    timer.start()
    with fw.Device() as other:
        other.connect(endpoint, 20).close()
    timer.join()
    opened[0].close()


def test_another_thread_runs_while_one_copies(pair: Pair) -> None:
    pair.far.publish("inbox", pair.far.allocate(64 << 20))
    remote = pair.near.lookup("inbox")
    source = np.ones(64 << 20, "uint8")
    turns = 0
    ended = False

    def count() -> None:
        nonlocal turns
        while not ended:
            turns += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    counter = threading.Thread(target=count)
    # Nothing is made to give the GIL up: the counter runs in the copy only if the copy releases it.
    sys.setswitchinterval(100)
    try:
        counter.start()
        for _ in range(200):
            before = turns
            pair.near.write(source, remote)
            if turns > before:
                break
        else:
            pytest.fail("no turn of another thread in 200 copies")
    finally:
        ended = True
        sys.setswitchinterval(interval)
        counter.join()


WAITS = {
    "accept": "device.accept()",
    "connect": "device.connect('127.0.0.1:1', timeout=None)",
    "wait_notification": "near.wait_notification()",
    "notifications": "list(near.notifications())",
    "lookup": "near.lookup('never', timeout=None)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_ctrl_c_ends_a_wait(wait: str) -> None:
    script = f"""
        import threading, time
        import farwrite as fw
        device, other = fw.Device(), fw.Device()
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(other.accept(20)))
        thread.start()
        near = device.connect(other.endpoint)
        thread.join()
        try:
            print("ready", flush=True)
            {WAITS[wait]}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        near.notify(1).wait()
        assert accepted[0].wait_notification(10).tag == 1
        near.close(); accepted[0].close(); device.close(); other.close()
        """
    with WarmPython(["-c", textwrap.dedent(script)], stderr=None) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.2)  # let it reach the wait; Ctrl-C before it would prove nothing
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30)[0] == "interrupted\n"
            assert process.returncode == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "near.on_notification(print); [far.notify(tag) for tag in range(1000)]",
        "threading.Thread(target=near.wait_notification, daemon=True).start(); time.sleep(0.1)",
        "threading.Thread(target=device.accept, daemon=True).start(); time.sleep(0.1)",
        "in_daemon(near.notifications())",
        "in_daemon(fw.TensorReceiver(near, 'edge'))",
        "in_daemon(client.create('w', 4).updates())",
        "device.publish('kept', device.allocate(10)); kept = far.lookup('kept').alias()",
    ],
)
def test_an_interpreter_that_closes_nothing_ends_well(ending: str) -> None:
    script = f"""
        import asyncio, threading, time
        import farwrite as fw
        device, other = fw.Device(), fw.Device()
        server = fw.box.serve(memory="16M", pool="1M")
        client = server.connect()

        async def take(stream):
            async for _ in stream:
                pass

        def in_daemon(stream):
            threading.Thread(target=lambda: asyncio.run(take(stream)), daemon=True).start()
            time.sleep(0.2)  # let it reach the wait

        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(other.accept(20)))
        thread.start()
        near = device.connect(other.endpoint)
        thread.join()
        far = accepted[0]
        {ending}
        """
    ended = run_python("-c", textwrap.dedent(script), seconds=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("loaded", [False, True], ids=["sub first", "main first"])
def test_a_subinterpreter_is_refused_and_the_main_one_works_on(loaded: bool) -> None:
    script = f"""
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        IMPORT = "try: import farwrite\\nexcept ImportError as error: print(error, flush=True)"
        if {loaded}:
            import farwrite
        sub = interpreters.create()
        interpreters.run_string(sub, IMPORT)
        interpreters.destroy(sub)
        import farwrite
        with farwrite.Device() as device:
            device.allocate(4).close()
            try:
                device.allocate(-1)
            except farwrite.InvalidArgument:
                print("works")
        """
    ended = run_python("-c", textwrap.dedent(script), seconds=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "subinterpreter" in ended.stdout and ended.stdout.endswith("works\n")


# What daemon threads do over and over while the interpreter ends, by what they would be caught in.
DAEMONS = {
    "copies": ["near.write(source, inbox).wait()", "mine.read()"],
    "waits": ["near.flush().wait()", "far.wait_notification(0.001)", "right.accept(0.001)"],
    "lookups": ["near.lookup('inbox', 0.01)", "near.lookup('never', 0.001)", "mine.alias()"],
    "handler": ["near.notify(1).wait()"],
}
RUNS_OF_AN_ENDING = 2


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
@pytest.mark.parametrize("daemons", DAEMONS)
def test_daemon_threads_do_not_abort_a_process_that_ends(daemons: str, closed: bool) -> None:
    script = f"""
        import threading, time
        import numpy as np
        import farwrite as fw
        left, right = fw.Device(), fw.Device()
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(right.accept(20)))
        thread.start()
        near = left.connect(right.endpoint)
        thread.join()
        far = accepted[0]
        source = np.ones(1 << 17, "uint8")
        far.publish("inbox", far.allocate(1 << 17))
        right.publish("mine", right.allocate(1 << 17))
        inbox, mine = near.lookup("inbox"), near.lookup("mine")

        def repeat(action):
            while True:
                try:
                    exec(action, globals())
                except fw.Error:  # closed
                    pass

        if {daemons == "handler"}:
            far.on_notification(lambda notification: sum(range(20_000)))
        for action in {DAEMONS[daemons]} * 2:
            threading.Thread(target=repeat, args=(action,), daemon=True).start()
        time.sleep(0.1)
        if {closed}:
            near.close(), far.close(), left.close(), right.close()
        """
    processes = [
        WarmPython(["-c", textwrap.dedent(script)], stdout=None) for _ in range(RUNS_OF_AN_ENDING)
    ]
    try:
        ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert ends == [("", 0)] * RUNS_OF_AN_ENDING


# Each thread has a stack of 8 MiB.
WITHOUT_ROOM_FOR_A_THREAD = """
import resource
import farwrite as fw

first, second = fw.Device(), fw.Device()
server = fw.box.serve(memory="16M", pool="1M")
first.serve_metrics("127.0.0.1:0")  # loads what it needs


def room_for_no_thread():
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 20), resource.RLIM_INFINITY))


for name, call in {
    "Device": fw.Device,
    "connect": lambda: first.connect(second.endpoint, 5),
    "serve_metrics": lambda: second.serve_metrics("127.0.0.1:0"),
    "box.serve": lambda: fw.box.serve(memory="16M", pool="1M"),
    "box.connect": lambda: fw.box.connect(server.endpoint, timeout=5),
}.items():
    room_for_no_thread()
    try:
        call()
    except BaseException as error:
        print(name, type(error).__name__)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("after", first.connect(second.endpoint, 20).peer_state.name)
"""


def test_without_room_for_a_thread_calls_say_so_and_work_later() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOM_FOR_A_THREAD], capture_output=True, text=True
    )
    refused = ("Device", "connect", "serve_metrics", "box.serve", "box.connect")
    lines = [f"{name} ResourceExhausted" for name in refused]
    assert ran.stdout.splitlines() == [*lines, "after ALIVE"], ran.stderr
    assert ran.returncode == 0, ran.stderr
