"""Ctrl-C ends what waits for a box."""

from __future__ import annotations

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
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
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
            raise InterruptedError

        signal.signal(signal.SIGINT, wait)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            box.attach("nothing", timeout=None)
        except InterruptedError:
            print("interrupted")
        print(segment.fill(1))
"""


def test_a_handler_may_wait_itself() -> None:
    ended = run_python("-c", textwrap.dedent(HANDLERS), seconds=60)
    assert (ended.stdout, ended.stderr) == ("DeadlineExceeded\n" * 3 + "interrupted\n1\n", "")


A_SERVER = """
    import os, signal, subprocess, sys, time
    import farwrite as fw

    serve = '''
    import sys, farwrite as fw
    with fw.box.serve(memory="8M", pool="2M") as server:
        print(server.endpoint, flush=True)
        sys.stdin.read()
    '''
    command = [sys.executable, "-c", serve]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as server:"""

STOPPED_SERVER = """
        with fw.box.connect(server.stdout.readline().strip()) as box:

            def go_on(*_):
                server.send_signal(signal.SIGCONT)
                time.sleep(1)  # the answer comes meanwhile
                raise InterruptedError

            signal.signal(signal.SIGALRM, go_on)
            server.send_signal(signal.SIGSTOP)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            try:
                box.create("w", 4, "float32")
            except InterruptedError:
                print("interrupted")
            print(box.create("w", 4, "float32").fill(1))
        server.stdin.close()
"""


def test_an_interrupted_creation_leaves_no_segment() -> None:
    ended = run_python("-c", textwrap.dedent(A_SERVER + STOPPED_SERVER), seconds=60)
    assert (ended.stdout, ended.stderr) == ("interrupted\n1\n", "")


SILENT_SERVER = """
        endpoint = server.stdout.readline().strip()
        with fw.box.connect(endpoint, fabrics=["tcp"]) as box:
            segment, event = box.create("w", 4, "float32"), box.event("news")
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            server.send_signal(signal.SIGSTOP)
            os.waitpid(server.pid, os.WUNTRACED)
            began = time.monotonic()
            for call in (
                segment.free,
                event.free,
                lambda: segment.chunk_versions,
                lambda: segment.version,
                lambda: segment.epoch,
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
    ended = run_python("-c", textwrap.dedent(A_SERVER + SILENT_SERVER), seconds=300)
    assert (ended.stdout, ended.stderr) == ("interrupted\n" * 5 + "True\n", "")
