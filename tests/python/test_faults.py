"""What happens when the other process dies, stops or is left alone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
import pytest

import farwrite as fw
from conftest import Link
from processes import PeerState


def _publish(state: PeerState, name: str, values: list[int]) -> None:
    array = state.device.publish(name, state.device.allocate(len(values), "int64"))
    array.array[:] = values


def _eventually(true: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 20
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def _open_inbox(state: PeerState, length: int) -> None:
    state.kept["inbox"] = state.channel.publish("inbox", state.channel.allocate(length, "int64"))


def _lookup(state: PeerState, name: str) -> tuple[Any, ...]:
    state.kept[name] = state.channel.lookup(name)
    return state.kept[name].shape, state.kept[name].dtype


def _write(state: PeerState, name: str, values: list[int]) -> None:
    state.channel.write(np.array(values), state.kept[name], notify=1).wait()


def _sum_after_notification(state: PeerState) -> int:
    state.channel.wait_notification(20)
    return int(state.kept["inbox"].array.sum())


def _sum_of_alias(state: PeerState, name: str) -> int:
    return int(state.channel.lookup(name).alias().sum())


def _serve_metrics_as_usual_processes_do(state: PeerState) -> str:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    return state.device.serve_metrics()


def _open_files(_: PeerState, count: int) -> None:
    with contextlib.ExitStack() as stack:
        for _file in range(count):
            stack.enter_context(Path(os.devnull).open())


def _endpoint(state: PeerState) -> str:
    return state.device.endpoint


def _take_a_peer(state: PeerState) -> int:
    with state.device.accept(20) as channel:
        return channel.wait_notification(20).tag


_CROWD = """
import socket, sys
address, count = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2])
held = [socket.create_connection(address, 20) for _ in range(count)]
print("crowded", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def _crowd(port: int, processes: int = 3, each: int = 367) -> Iterator[None]:
    """Hold idle connections to a port of this host; in processes, for their limits' sake."""
    command = [sys.executable, "-S", "-c", _CROWD, str(port), str(each)]
    with contextlib.ExitStack() as stack:
        crowd = [
            stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
            for _ in range(processes)
        ]
        for one in crowd:
            assert one.stdout is not None
            assert one.stdout.readline() == "crowded\n"
        yield


def test_a_crowd_at_the_metrics_leaves_descriptors_and_lets_scrapers_in(link: Link) -> None:
    url = link.peer.run(_serve_metrics_as_usual_processes_do)
    with _crowd(urllib.parse.urlsplit(url).port or 0):
        link.peer.run(_open_files, 256)
        with urllib.request.urlopen(url, timeout=20) as answer:
            assert b"farwrite_channels_open" in answer.read()
        endpoint = link.peer.run(_endpoint)
        link.peer.start(_take_a_peer)
        with link.device.connect(endpoint, 20) as channel:
            channel.notify(7).wait(20)
            assert link.peer.result() == 7


def test_arrays_cross_processes_both_ways(link: Link) -> None:
    link.peer.run(_open_inbox, 1000)
    link.channel.write(np.arange(1000), link.channel.lookup("inbox"), notify=1).wait()
    assert link.peer.run(_sum_after_notification) == 499_500

    mine = link.device.publish("mine", link.device.allocate(1000, "int64"))
    mine.array[:] = 2
    assert link.peer.run(_sum_of_alias, "mine") == 2000

    inbox = link.channel.publish("back", link.channel.allocate((10, 10), "int64"))
    assert link.peer.run(_lookup, "back") == ((10, 10), np.dtype("int64"))
    link.peer.run(_write, "back", list(range(100)))
    link.channel.wait_notification(20)
    assert inbox.array.sum() == 4950


def test_a_killed_peer_is_dead(link: Link) -> None:
    link.peer.run(_open_inbox, 4)
    remote = link.channel.lookup("inbox")
    link.peer.kill()
    with pytest.raises(fw.PeerDead, match="shm") as raised:
        link.channel.wait_notification(20)
    assert isinstance(raised.value, ConnectionError)
    assert link.channel.peer_state is fw.PeerState.DEAD
    for operation in (
        lambda: link.channel.write(np.zeros(4, "int64"), remote),
        lambda: link.channel.notify(1),
        lambda: link.channel.flush(),
    ):
        with pytest.raises(fw.PeerDead):
            operation().wait(20)
    with pytest.raises(fw.PeerDead):
        list(link.channel.notifications())
    link.channel.close()


def test_a_dead_peer_gives_everything_back(link: Link) -> None:
    array = link.device.publish("mine", link.device.allocate(1 << 20))
    inbox = link.channel.publish("back", link.channel.allocate(1 << 20))
    link.peer.run(_lookup, "mine")
    link.peer.run(_lookup, "back")
    assert link.device.stats().leases_held_by_peers == 1
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(20)
    # The channel is dead once its connection closed; what the peer held comes back
    # once the process is known to be gone, which the kernel tells a little later.
    _eventually(lambda: link.device.stats().leases_held_by_peers == 0)
    inbox.close()
    link.channel.close()
    link.device.unpublish("mine")
    del array, inbox
    gc.collect()
    assert link.device.stats().quarantined_bytes == 0
    assert link.device.stats().send.used == 0
    assert link.device.stats().receive.used == 0


def test_an_alias_outlives_the_peer(link: Link) -> None:
    link.peer.run(_publish, "theirs", [5, 6, 7])
    alias = link.channel.lookup("theirs").alias()
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(20)
    assert alias.tolist() == [5, 6, 7]
    link.channel.close()
    link.device.close()
    assert alias.tolist() == [5, 6, 7]


def test_other_peers_do_not_notice_a_death(make_link: Callable[..., Link]) -> None:
    dying = make_link()
    living = make_link()
    dying.peer.kill()
    living.peer.run(_open_inbox, 4)
    living.channel.write(np.arange(4), living.channel.lookup("inbox"), notify=1).wait()
    assert living.peer.run(_sum_after_notification) == 6


def test_a_stream_ends_without_an_error_when_the_peer_ends_in_good_order(link: Link) -> None:
    link.peer.end()
    assert list(link.channel.notifications()) == []
    with pytest.raises(fw.Unavailable, match="closed"):
        link.channel.wait_notification(10)


def test_a_stopped_peer_is_silent_and_comes_back(make_link: Callable[..., Link]) -> None:
    link = make_link(detection_time=0.3)
    inbox = link.channel.publish("back", link.channel.allocate(4, "int64"))
    link.peer.run(_lookup, "back")
    with link.peer.stopped():
        _eventually(lambda: link.channel.peer_state is fw.PeerState.SILENT)
        says = "the peer is silent, and no notification arrived in time; check that the peer is run"
        with pytest.raises(fw.DeadlineExceeded, match=says):
            link.channel.wait_notification(0.2)
        with pytest.raises(fw.DeadlineExceeded, match=says):
            asyncio.run(link.channel.notification(0.1))
    link.peer.run(_write, "back", [1, 2, 3, 4])
    link.channel.wait_notification(20)
    assert inbox.array.tolist() == [1, 2, 3, 4]
    # The notification, through shared memory, may overtake the control message that reports it.
    _eventually(lambda: link.channel.peer_state is fw.PeerState.ALIVE)
    assert link.channel.stats().silences >= 1


def test_waits_for_a_silent_peers_tensors_say_that_it_is_silent(
    make_link: Callable[..., Link],
) -> None:
    link = make_link(detection_time=0.3)
    link.peer.run(_receive, "taken")
    sender = fw.TensorSender(link.channel, "taken", timeout=20)
    receiver = fw.TensorReceiver(link.channel, "given")
    with link.peer.stopped():
        _eventually(lambda: link.channel.peer_state is fw.PeerState.SILENT)
        sender.send(np.zeros(3))
        for call, cause in (
            (lambda: fw.TensorSender(link.channel, "absent", 0.1), "no receiver named"),
            (lambda: sender.close(0.1), "took 0 of 1 tensors in time"),
            (lambda: receiver.receive(0.2), 'no tensor of "given" arrived'),
            (lambda: asyncio.run(receiver.receive_async(0.1)), 'no tensor of "given" arrived'),
        ):
            says = f"the peer is silent, and .*{cause}.*; check that the peer is running"
            with pytest.raises(fw.DeadlineExceeded, match=says):
                call()
        for ask in (link.channel.lookup, link.channel.lookup_bytes):
            with pytest.raises(fw.PeerSilent):
                ask("absent", timeout=0.1)


def _receive(state: PeerState, name: str) -> None:
    state.kept[name] = fw.TensorReceiver(state.channel, name)


def _write_until_refused(state: PeerState, name: str) -> str:
    source = np.zeros(state.kept[name].shape, "uint8")
    try:
        while True:
            state.channel.write(source, state.kept[name], notify=int(name.split()[1])).wait()
    except fw.Error as error:
        return type(error).__name__


def test_closing_reports_a_peer_that_stopped_in_the_middle_of_a_write(
    make_link: Callable[..., Link],
) -> None:
    link = make_link(detection_time=0.3)
    size = 64 << 20
    # The signal may hit between two writes, and then nothing is left to wait for: try again.
    for attempt in range(100):
        name = f"inbox {attempt}"
        inbox = link.channel.publish(name, link.channel.allocate(size))
        link.peer.run(_lookup, name)
        link.peer.start(_write_until_refused, name)
        # Those of the attempts before may still wait here.
        while link.channel.wait_notification(20).tag != attempt:
            pass
        with link.peer.stopped():
            try:
                inbox.close(timeout=0.3)
                silent = False
            except fw.PeerSilent as error:
                assert isinstance(error, ConnectionError)
                silent = True
        assert link.peer.result() in ("FailedPrecondition", "NotFound", "PermissionDenied")
        if silent:
            break
    else:
        pytest.fail("no signal hit a write")
    inbox.close(timeout=20)
    assert link.device.stats().quarantined_bytes == 0
