"""Ctrl-C ends what waits for a box."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from warm_python import run_python

PROGRAM = """
    import os, signal, threading
    import farwrite as fw

    with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as box:
        segment = box.create("w", 4, "float32")
        for call in (
            lambda: segment.wait(1),
            lambda: segment.read(min_version=1),
            lambda: box.attach("nothing", timeout=None),
            lambda: box.event("epoch").wait(),
        ):
            try:
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                call()
            except KeyboardInterrupt:
                print("interrupted")
        print(segment.fill(1))
"""


def test_a_signal_ends_each_call_that_waits() -> None:
    ended = run_python("-c", textwrap.dedent(PROGRAM), seconds=60)
    assert (ended.stdout, ended.stderr) == ("interrupted\n" * 4 + "1\n", "")


HANDLERS = """
    import os, signal, threading
    import farwrite as fw

    with fw.box.serve(memory="8M", pool="2M") as server, server.connect() as box:
        segment = box.create("w", 4, "float32")

        def late(call):
            try:
                call()
            except (fw.DeadlineExceeded, fw.NotFound) as error:
                print(type(error).__name__)

        def wait(*_):
            late(lambda: segment.wait(9, timeout=0.4))
            late(lambda: box.attach("other", timeout=0.4))
            late(lambda: segment.wait(9, timeout=0.4))
            print(box.create("of the handler", 4, "float32").fill(2))
            raise InterruptedError

        signal.signal(signal.SIGINT, wait)
        try:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            box.attach("nothing", timeout=None)
        except InterruptedError:
            print("interrupted")
        print(segment.fill(1))
"""


def test_a_handler_may_wait_itself() -> None:
    ended = run_python("-c", textwrap.dedent(HANDLERS), seconds=60)
    assert (ended.stdout, ended.stderr) == ("DeadlineExceeded\n" * 3 + "1\ninterrupted\n1\n", "")


A_SERVER = """
    import os, signal, subprocess, sys, threading, time
    import farwrite as fw
    from processes import stop

    serve = '''
    import sys, farwrite as fw
    with fw.box.serve(memory="8M", pool="2M") as server:
        print(server.endpoint, flush=True)
        sys.stdin.read()
    '''
    command = [sys.executable, "-c", serve]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:"""


def beside_a_server(program: str) -> subprocess.CompletedProcess[str]:
    """Run the program with the process of a box as `server`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return run_python("-c", textwrap.dedent(A_SERVER + program), environment=environment)


STOPPED_SERVER = """
        with fw.box.connect(server.stdout.readline().strip()) as box:

            def go_on(*_):
                server.send_signal(signal.SIGCONT)
                time.sleep(1)  # the answer comes meanwhile
                raise InterruptedError

            signal.signal(signal.SIGALRM, go_on)
            stop(server.pid)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                box.create("w", 4, "float32")
            except InterruptedError:
                print("interrupted")
            print(box.create("w", 4, "float32").fill(1))
        server.stdin.close()
"""


def test_an_interrupted_creation_leaves_no_segment() -> None:
    ended = beside_a_server(STOPPED_SERVER)
    assert (ended.stdout, ended.stderr) == ("interrupted\n1\n", "")


SILENT_SERVER = """
        endpoint = server.stdout.readline().strip()
        with fw.box.connect(endpoint, fabrics=["tcp"]) as box:
            segment, event = box.create("w", 4, "float32"), box.event("news")
            cached = segment.cached()
            cached._version = -1
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            stop(server.pid)
            began = time.monotonic()
            for call in (
                segment.free,
                event.free,
                lambda: segment.chunk_versions,
                lambda: segment.version,
                lambda: segment.epoch,
                segment.read,
                lambda: segment.read(consistent="chunk"),
                lambda: segment.read(min_version=1),
                lambda: segment.wait(1),
                lambda: event.wait(1),
                segment.lease,
                segment.cached,
                cached.refresh,
            ):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.2)
                    call()
                except KeyboardInterrupt:
                    print("interrupted")
            print(time.monotonic() - began < 15)  # each waits 30 s for the answer
            server.send_signal(signal.SIGCONT)
        server.stdin.close()
"""


def test_a_signal_ends_each_call_that_waits_for_a_stopped_server() -> None:
    ended = beside_a_server(SILENT_SERVER)
    assert (ended.stdout, ended.stderr) == ("interrupted\n" * 13 + "True\n", "")


LIMITS = """
        endpoint = server.stdout.readline().strip()
        with fw.box.connect(endpoint, fabrics=["tcp"], timeout=1) as box:
            segment, event = box.create("w", 4, "float32"), box.event("news")
            cached = segment.cached()
            stop(server.pid)
            for call in (cached.refresh, segment.read, lambda: cached.stale, lambda: event.count):
                try:
                    call()
                except fw.DeadlineExceeded:
                    print("late")
            told = []
            waiting = threading.Thread(target=lambda: told.append(segment.wait(0)))
            waiting.start()
            waiting.join(1.0)  # it has no limit, and none is put upon it
            server.send_signal(signal.SIGCONT)
            waiting.join()
            print(told)
        server.stdin.close()
"""


def test_a_call_in_the_main_thread_ends_by_the_limit_that_it_has_in_any_other() -> None:
    ended = beside_a_server(LIMITS)
    assert (ended.stdout, ended.stderr) == ("late\n" * 4 + "[0]\n", "")
