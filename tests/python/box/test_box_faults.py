"""Clients that die or stop, and a server that is killed: nothing is lost or torn."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from box_process import BoxProcess

import farwrite as fw
from processes import stop, wait_until
from warm_python import WarmPython


def test_a_client_killed_in_the_middle_of_changes_leaves_whole_ones(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    segment = box.create("w", 1 << 18, "float32")
    program = """
        segment = box.attach("w")
        ones = box.array(1 << 18)
        ones.array[:] = 1
        while True:
            update = segment.post.accumulate(ones)
            print(update.wait(), flush=True)
    """
    with BoxProcess(box_server.endpoint, program) as process:
        for _ in range(5):
            process.line()
        process.kill()
    wait_until(lambda: box_server.stats().clients == 1)
    values = segment.read()
    assert values[0] >= 5
    np.testing.assert_array_equal(values, np.full(1 << 18, values[0]))
    assert segment.version == values[0]
    assert segment.fill(0) == values[0] + 1


def test_what_a_killed_client_held_is_released(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    segment = box.create("w", 1024, "float32")
    program = """
        held = box.attach("w").lease()
        mine = box.create("mine", 1024, "float32", temporary=True)
        box.event("mark").on_signal(print)
        print("ready")
        sys.stdin.readline()
    """
    with BoxProcess(box_server.endpoint, program) as process:
        assert process.line() == "ready"
        assert {info.name for info in box.list()} == {"w", "mine", "mark"}
        process.kill()
    wait_until(lambda: box_server.stats().clients == 1)
    wait_until(lambda: {info.name for info in box.list()} == {"w", "mark"})
    wait_until(lambda: box_server.stats().leases == 0)  # which end with the channel
    wait_until(lambda: [info.attached for info in box.list() if info.name == "w"] == [1])
    for value in range(10):
        segment.fill(value)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_a_killed_client_is_gone_although_a_child_of_it_lives(fabric: str) -> None:
    program = """
        import os, time
        box.create("temporary", 1, temporary=True)
        child = os.fork()
        if child == 0:
            time.sleep(100)
            os._exit(0)
        print(child)
        time.sleep(100)
    """
    with (
        fw.box.serve(memory="16M", pool="1M", fabrics=[fabric]) as server,
        BoxProcess(server.endpoint, program) as process,
    ):
        child = int(process.line())
        try:
            process.kill()
            wait_until(lambda: server.stats().clients == 0)
            with server.connect() as client:
                assert client.list() == []
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("seconds", [0, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_stopped_client_stops_nobody_else(
    box_server: fw.box.Server, box: fw.box.Client, seconds: float
) -> None:
    segment = box.create("w", 1 << 16, "float32")
    program = """
        segment = box.attach("w")
        while True:
            segment.accumulate(np.ones(1 << 16, "float32"))
            print("done", flush=True)
    """
    with BoxProcess(box_server.endpoint, program) as process:
        process.line()
        stop(process.pid)
        before = segment.version
        for _ in range(20):
            segment.accumulate(np.ones(1 << 16, "float32"))
            values = segment.read(timeout=30)
            assert values.min() == values.max()
        assert segment.version >= before + 20
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGCONT)
        process.line()
        values = segment.read(timeout=30)
        assert values.min() == values.max() >= before + 20


def test_clients_learn_that_the_server_was_killed(tmp_path: Path) -> None:
    with Served(tmp_path) as served, fw.box.connect(served.endpoint, timeout=20) as box:
        segment = box.create("w", 4, "float32")
        served.kill()
        with pytest.raises((fw.PeerDead, fw.Unavailable)):
            segment.wait(5, timeout=20)
        with pytest.raises(fw.Error):
            segment.fill(1)


def test_mapped_memory_of_a_killed_server_is_not_read_behind_the_first_peer_dead(
    tmp_path: Path,
) -> None:
    holds, ends = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        holds.set()
        ends.wait()

    with Served(tmp_path) as served, fw.box.connect(served.endpoint, timeout=20) as box:
        assert box.server.fabric == "shm"
        segment = box.create("w", 4, "float32")
        assert segment.read().sum() == 0
        segment.on_update(hold)
        segment.post.signal()
        assert holds.wait(20)
        # From here on the thread is held up that tells the client of its end.
        try:
            served.kill()
            give_up = time.monotonic() + 20
            while True:
                assert time.monotonic() < give_up
                try:
                    segment.post.signal().wait(0.01)
                except fw.DeadlineExceeded:
                    continue
                except fw.PeerDead:
                    break
            for read in (segment.read, lambda: segment.version, lambda: segment.epoch):
                with pytest.raises(fw.PeerDead):
                    read()
        finally:
            ends.set()


class Served:
    """A box in another process: ``farwrite box serve``."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._process = WarmPython(
            ["-m", "farwrite", "box", "serve", "--memory", "64M", "--pool", "4M",
             "--snapshot", str(folder), *words],
        )  # fmt: skip
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it normally. Return its status and what it wrote to stderr."""
        self._process.send_signal(number)
        errors = self._process.communicate(timeout=30)[1]
        return self._process.returncode, errors

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize(
    ("end", "error"),
    [("killed", fw.PeerDead), ("ended", fw.Unavailable), ("left", fw.Cancelled)],
)
def test_after_its_end_nothing_reads_what_the_connection_has_left(
    tmp_path: Path, fabric: str, end: str, error: type[fw.Error]
) -> None:
    """Memory of the server that is still mapped here holds the last version for ever."""
    with (
        Served(tmp_path) as served,
        fw.box.connect(served.endpoint, fabrics=[fabric], segment_bytes=4 << 20) as client,
    ):
        segment = client.create("weights", (4,))
        empty = client.create("empty", (0,))
        event = client.event("event")
        publisher = client.publisher("model", like={"w": np.ones(4)})
        publisher.publish({"w": np.ones(4)})
        subscriber = client.subscribe("model")
        cached = segment.cached()
        segment.fill(1)
        segment.read()
        {"killed": served.kill, "ended": served.end, "left": client.close}[end]()
        calls: dict[str, Callable[[], object]] = {
            "version": lambda: segment.version,
            "epoch": lambda: segment.epoch,
            "chunk_versions": lambda: segment.chunk_versions,
            "read": segment.read,
            "read by chunk": lambda: segment.read(consistent="chunk"),
            "read of nothing": empty.read,
            "read of a version": lambda: segment.read(min_version=1, timeout=0),
            "wait": lambda: segment.wait(1, 0),
            "lease": lambda: segment.lease(timeout=5),
            "stale": lambda: cached.stale,
            "refresh": cached.refresh,
            "count": lambda: event.count,
            "counted": lambda: event.wait(0, 0),
            "subscribed": lambda: subscriber.version,
            "waited": lambda: subscriber.wait(timeout=0),
            "latest": lambda: subscriber.latest(timeout=5),
        }
        with pytest.raises(error):  # the end takes a moment to arrive
            for _ in range(1000):
                _ = segment.version
                time.sleep(0.01)
        for name, call in calls.items():
            try:
                given = call()
            except error:
                continue
            pytest.fail(f"{name} gave {given!r}")
        with pytest.raises(fw.Error):
            publisher.publish({"w": np.ones(4)})


def test_a_killed_server_is_restored_from_its_last_snapshot(tmp_path: Path) -> None:
    values = np.arange(1 << 16, dtype="float32")
    with (
        fw.box.serve(memory="64M", pool="4M", segment_bytes=4 << 20, snapshot=tmp_path) as server,
        server.connect() as box,
    ):
        segment = box.create("w", 1 << 16, "float32")
        policy = server.publisher("policy", like={"b": values})
        segment.write(values)
        policy.publish({"b": values + 1})
        key = segment.key
        server.snapshot()
        segment.fill(7)  # lost
        assert server.stats().snapshots == 1
    with (
        fw.box.serve(
            memory="64M", pool="4M", segment_bytes=4 << 20, snapshot=tmp_path, restore=True
        ) as server,
        server.connect() as box,
    ):
        found = box.attach("w")
        assert (found.key, found.version) == (key, 1)
        np.testing.assert_array_equal(found.read(), values)
        with box.subscribe("policy").latest(timeout=20) as model:
            np.testing.assert_array_equal(model["b"], values + 1)
        again = server.publisher("policy", like={"b": values}, takeover=True)
        assert again.publish({"b": values}) == 2


def restored(folder: Path) -> object:
    with (
        fw.box.serve(memory="8M", pool="2M", snapshot=folder, restore=True) as server,
        server.connect() as box,
    ):
        return box.attach("w").read().tolist()


def newest_snapshot(folder: Path) -> int:
    """The number of the newest snapshot, 0 without one."""
    names = sorted(folder.glob("snapshot-*.farwrite"))
    return int(names[-1].stem.removeprefix("snapshot-")) if names else 0


def test_the_command_writes_a_last_snapshot_and_restores_it(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        with fw.box.connect(served.endpoint, timeout=20) as box:
            box.create("w", 4, "float32").fill(3)
        assert served.end(signal.SIGINT) == (0, "")
    with Served(tmp_path, "--restore") as served:
        with fw.box.connect(served.endpoint, timeout=20) as box:
            assert box.attach("w").fill(4) == 2
        assert served.end(signal.SIGTERM) == (0, "")
    assert restored(tmp_path) == [4] * 4


def test_a_signal_ends_the_command_also_just_as_it_begins_to_wait() -> None:
    script = """
import os, signal, threading, time
from farwrite.box.command import _signals_end
signal.alarm(60)  # which ends a process that hangs
install = signal.signal
def install_and_kill(number, handler):
    before = install(number, handler)
    if signal.signal is not install: os.kill(os.getpid(), number)
    return before
signal.signal = install_and_kill
with _signals_end() as wait:
    signal.signal = install
    wait()
for turn in range(2000):
    with _signals_end() as wait:
        start = threading.Barrier(2)
        def interrupt():
            start.wait()
            end = time.perf_counter() + turn % 100 * 1e-6
            while time.perf_counter() < end: pass
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        start.wait()
        wait()
        thread.join()
print("each signal ended a wait")
"""
    with WarmPython(["-c", script]) as process:
        try:
            said = process.communicate(timeout=90)
            assert said == ("each signal ended a wait\n", "")
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_last_snapshot_has_every_change_that_was_answered(
    tmp_path: Path, number: signal.Signals
) -> None:
    with Served(tmp_path) as served, fw.box.connect(served.endpoint, timeout=20) as box:
        # Until this one is written the server used to serve on, and to forget the changes.
        box.create("large", 1 << 22, "float32")
        counts = [box.event(f"count {i}") for i in range(4)]
        answered = [0] * len(counts)
        begun = threading.Barrier(len(counts) + 1)

        def change(i: int) -> None:
            begun.wait(20)
            with contextlib.suppress(fw.Error):
                while True:
                    answered[i] = counts[i].signal()

        threads = [threading.Thread(target=change, args=(i,)) for i in range(len(counts))]
        for thread in threads:
            thread.start()
        begun.wait(20)
        wait_until(lambda: min(answered) > 0)
        assert served.end(number) == (0, "")
        for thread in threads:
            thread.join()
    with (
        fw.box.serve(memory="64M", pool="2M", snapshot=tmp_path, restore=True) as server,
        server.connect() as box,
    ):
        for i, count in enumerate(answered):
            assert box.event(f"count {i}").count >= count


def test_a_server_closes_with_a_last_snapshot(tmp_path: Path) -> None:
    values = {"b": np.zeros(4, "float32")}
    with fw.box.serve(memory="8M", pool="2M", snapshot=tmp_path) as server:
        box = server.connect()
        box.create("w", 4, "float32").fill(3)
        policy = server.publisher("policy", like=values)
        policy.publish(values)
        server.close(snapshot=True)
        with pytest.raises(fw.FailedPrecondition):
            policy.publish(values)
        server.close()
    assert restored(tmp_path) == [3] * 4


def test_a_last_snapshot_without_a_folder_ends_nothing(
    box_server: fw.box.Server, box: fw.box.Client
) -> None:
    with pytest.raises(fw.FailedPrecondition, match="snapshot="):
        box_server.close(snapshot=True)
    assert box.create("w", 4, "float32").fill(1) == 1


def test_a_last_snapshot_that_fails_is_an_error_and_the_server_closed(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir()
    with fw.box.serve(memory="8M", pool="2M", snapshot=folder) as server:
        box = server.connect()
        segment = box.create("w", 4, "float32")
        shutil.rmtree(folder)
        with pytest.raises(fw.Error, match="snapshots"):
            server.close(snapshot=True)
        with pytest.raises(fw.Unavailable):
            segment.fill(5)


def test_a_command_under_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        command = [
            sys.executable,
            "-m",
            "farwrite",
            "box",
            "serve",
            "--memory",
            "8M",
            "--pool",
            "2M",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as served:
            assert served.stdout is not None
            endpoint = served.stdout.readline().strip()
            served.send_signal(signal.SIGHUP)
            with fw.box.connect(endpoint, timeout=20) as box:
                assert box.list() == []
            served.send_signal(signal.SIGTERM)
            assert served.wait(30) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_killed_command_loses_nothing_up_to_its_last_snapshot(tmp_path: Path) -> None:
    with Served(tmp_path, "--snapshot-every", "50ms") as served:
        with fw.box.connect(served.endpoint, timeout=20) as box:
            box.create("w", 4, "float32").fill(3)
            # One may have begun before the change, the next one has it.
            newest = newest_snapshot(tmp_path)
            wait_until(lambda: newest_snapshot(tmp_path) >= newest + 2)
        served.kill()
    assert restored(tmp_path) == [3] * 4


def test_restoring_from_an_empty_folder_fails(tmp_path: Path) -> None:
    with pytest.raises(fw.NotFound):
        fw.box.serve(memory="8M", pool="2M", snapshot=tmp_path, restore=True)


def test_a_snapshot_needs_a_folder(box_server: fw.box.Server) -> None:
    with pytest.raises(fw.FailedPrecondition):
        box_server.snapshot()


WITHOUT_THREADS = """
import resource, sys
import farwrite as fw
server = fw.box.serve(memory="16M", pool="1M", fabrics=["shm"])
used = int(next(l for l in open("/proc/self/status") if l.startswith("VmSize")).split()[1]) * 1024
print(server.endpoint, flush=True)
# Each client's thread has a stack of 8 MiB.
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20),) * 2)
sys.stdin.read()
print(server.stats().segments, flush=True)
"""


def test_a_client_for_which_no_thread_starts_ends_nobody_else() -> None:
    command = [sys.executable, "-c", WITHOUT_THREADS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        endpoint = server.stdout.readline().strip()
        with contextlib.ExitStack() as clients, pytest.raises(fw.Error):
            first = clients.enter_context(fw.box.connect(endpoint, fabrics=["shm"]))
            segment = first.create("w", 4)
            for _ in range(40):
                client = clients.enter_context(fw.box.connect(endpoint, fabrics=["shm"], timeout=5))
                client.list()
        assert segment.name == "w"
        with fw.box.connect(endpoint, fabrics=["shm"], timeout=30) as again:
            again.list()
        _, errors = server.communicate("", timeout=60)
    assert server.returncode == 0, errors
