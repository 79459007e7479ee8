"""fw.Device: options, endpoints, memory, names and its end."""

from __future__ import annotations

import gc
import os
import re
import socket
import struct
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import farwrite as fw
from conftest import Link, Pair, connected
from processes import PeerState, wait_until

TIMES = 3


def test_listens_on_a_free_port_by_default(device: fw.Device) -> None:
    host, _, port = device.endpoint.rpartition(":")
    assert host == "127.0.0.1"
    assert int(port) > 0
    assert repr(device) == f"<Device at {device.endpoint}>"
    device.close()
    assert repr(device) == f"<Device at {device.endpoint}, closed>"


def test_listens_on_the_port_it_was_given(device: fw.Device) -> None:
    port = int(device.endpoint.rpartition(":")[2])
    device.close()
    with fw.Device(port=port) as again:
        assert again.endpoint == f"127.0.0.1:{port}"


def test_a_taken_port_already_exists(device: fw.Device) -> None:
    with pytest.raises(fw.AlreadyExists, match=device.endpoint.rpartition(":")[2]):
        fw.Device(listen=device.endpoint)


def test_has_a_stable_identity_and_an_epoch(device: fw.Device) -> None:
    assert len(device.uuid) == 16
    endpoint, uuid, epoch = device.endpoint, device.uuid, device.epoch
    device.close()
    with fw.Device(listen=endpoint) as again:
        assert again.uuid == uuid
        assert again.epoch != epoch


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"listen": "nowhere"}, "nowhere"),
        ({"listen": 7777}, "listen"),
        ({"listen": "127.0.0.1:0", "port": 1}, "port"),
        ({"port": 65536}, "port"),
        ({"name": ""}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"fabrics": []}, "fabrics"),
        ({"fabrics": "shm"}, "fabrics"),
        ({"fabrics": ["pigeon"]}, "pigeon"),
        ({"lanes": 0}, "lanes"),
        ({"lanes": 1.5}, "lanes"),
        ({"pollers": 0}, "pollers"),
        ({"spin": -1.0}, "spin"),
        ({"spin": "soon"}, "spin"),
        ({"detection_time": float("nan")}, "detection_time"),
        ({"token": ""}, "token"),
        ({"token": 7}, "token"),
        ({"send_limit": 0}, "send_limit"),
        ({"receive_limit": -1}, "receive_limit"),
        ({"huge_pages": "enormous"}, "enormous"),
        ({"numa_node": -5}, "numa_node"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, object], named: str) -> None:
    with pytest.raises(fw.InvalidArgument, match=named) as raised:
        fw.Device(**options)  # type: ignore[arg-type]
    assert isinstance(raised.value, ValueError)


def test_the_messages_of_its_peers_contain_its_name() -> None:
    with fw.Device(name="worker 1") as named, fw.Device() as other:
        near, far = connected(named, other)
        near.close()
        with pytest.raises(fw.Unavailable, match=rf"worker 1 \({named.endpoint}\)"):
            far.wait_notification(timeout=10)


def test_a_fabric_that_is_not_built_is_an_error() -> None:
    with pytest.raises((fw.Unsupported, fw.Unavailable), match="verbs"):
        fw.Device(fabrics=["verbs"])


def test_every_option_has_a_place() -> None:
    with fw.Device(
        listen="127.0.0.1:0",
        fabrics=["shm"],
        lanes=2,
        pollers=2,
        spin=0.0,
        token=b"secret",
        send_limit=1 << 24,
        send_limit_per_peer=1 << 23,
        receive_limit=1 << 24,
        receive_limit_per_peer=1 << 23,
        segment_bytes=1 << 21,
        receive_segment_bytes=1 << 21,
        huge_pages="off",
        prefault=False,
        detection_time=1.0,
        handshake_timeout=1.0,
    ) as device:
        assert device.stats().send.limit == 1 << 24
        assert device.stats().receive.limit == 1 << 24


def test_allocates_aligned_arrays_of_any_shape(device: fw.Device) -> None:
    for shape in ((), 5, (3, 4), (2, 0, 3)):
        array = device.allocate(shape, "float32")
        assert array.array.shape == np.empty(shape).shape
        assert array.array.flags.c_contiguous
        assert array.array.flags.writeable
        assert array.array.ctypes.data % 64 == 0
        assert array.access == "read"


def test_knows_its_own_memory(device: fw.Device) -> None:
    assert device.contains(device.allocate(100).array)
    assert not device.contains(np.zeros(100))


def test_counts_memory(device: fw.Device) -> None:
    array = device.allocate(1 << 20)
    stats = device.stats()
    assert stats.send.used >= array.nbytes
    assert stats.send.reserved >= stats.send.used
    assert stats.send.segments == 1
    assert stats.registrations == 2, "one with shm, one with tcp"
    del array
    gc.collect()
    assert device.stats().send.used == 0


def test_a_full_device_says_so() -> None:
    with fw.Device(send_limit=1 << 22, segment_bytes=1 << 21) as device:
        with pytest.raises(fw.ResourceExhausted, match="send_limit") as raised:
            device.allocate(1 << 23)
        assert isinstance(raised.value, MemoryError)
        assert device.stats().send.refusals >= 1
        device.allocate(1 << 20)


def test_connecting_to_nobody_ends_in_time(device: fw.Device) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises((fw.Unavailable, fw.DeadlineExceeded)) as raised:
            device.connect(endpoint, timeout=0.3)
    assert endpoint in str(raised.value)


def test_a_connect_that_waits_says_what_for(
    device: fw.Device, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(fw.Unavailable, match=r"start the peer first.*\(tried for \d+\.\d s\)"):
            device.connect(f"127.0.0.1:{silent.getsockname()[1]}", timeout=3)
    logged = capfd.readouterr().err
    assert re.search(
        r"still trying, for another \d\.\d s: connect to .* the connection failed", logged
    )
    assert logged.count("still trying") == 1


def test_a_connect_goes_on_when_the_process_ends_that_took_the_connection(
    device: fw.Device,
) -> None:
    with socket.socket() as ending:
        ending.bind(("127.0.0.1", 0))
        ending.listen()
        ending.settimeout(20)
        endpoint = f"127.0.0.1:{ending.getsockname()[1]}"

        def end_and_start_again() -> None:
            taken = ending.accept()[0]
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            ending.close()
            taken.close()  # resets it, as the end of a killed process does
            with fw.Device(listen=endpoint) as again, again.accept(20):
                pass

        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(end_and_start_again)
            with device.connect(endpoint, timeout=20):
                pass
            started.result()


@pytest.mark.parametrize("words", [b"SSH-2.0-OpenSSH_9.2p1\r\n", b"\x02\0\0\0\x63\0ab"])
def test_another_program_at_a_port_is_called_that(device: fw.Device, words: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with other.accept()[0] as client:
                client.sendall(words)
                client.recv(1 << 16)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(fw.ProtocolError, match="another program seems to hold that port"):
            device.connect(f"127.0.0.1:{other.getsockname()[1]}", timeout=10)
        thread.join()


def test_connecting_to_nonsense_is_an_invalid_argument(device: fw.Device) -> None:
    with pytest.raises(fw.InvalidArgument, match="no port"):
        device.connect("nowhere")
    with pytest.raises(fw.InvalidArgument, match="timeout"):
        device.connect("127.0.0.1:7777", timeout=-1)


def test_accepting_nobody_ends_in_time(device: fw.Device) -> None:
    with pytest.raises(fw.DeadlineExceeded) as raised:
        device.accept(timeout=0.05)
    assert isinstance(raised.value, TimeoutError)


def test_channels_of_one_device_are_apart(pair: Pair) -> None:
    near, far = connected(pair.left, pair.right)
    near.notify(5).wait()
    assert far.wait_notification(10).tag == 5
    assert pair.far.try_notification() is None
    assert pair.left.stats().channels_open == 2
    near.close()
    far.close()
    pair.near.notify(6).wait()
    assert pair.far.wait_notification(10).tag == 6


def test_every_peer_sees_what_a_device_publishes(pair: Pair) -> None:
    published = pair.left.publish("here", pair.left.allocate(4, "int16"))
    published.array[:] = [1, 2, 3, 4]
    assert pair.far.lookup("here").read().tolist() == [1, 2, 3, 4]
    pair.left.unpublish("here")
    with pytest.raises(fw.NotFound, match="here"):
        pair.far.lookup("here", timeout=0.1)
    with pytest.raises(fw.NotFound, match="here"):
        pair.left.unpublish("here")


def test_publishing_again_replaces(pair: Pair) -> None:
    pair.left.publish("here", pair.left.allocate(4, "int16"))
    pair.left.publish("here", pair.left.allocate((2, 2), "float64"))
    found = pair.far.lookup("here")
    assert (found.shape, found.dtype) == ((2, 2), np.dtype("float64"))


def test_a_name_that_is_too_long_is_refused(device: fw.Device) -> None:
    with pytest.raises(fw.InvalidArgument):
        device.publish("x" * 1000, device.allocate(1))


def test_tells_which_fabric_it_chose_and_why(pair: Pair) -> None:
    (choice,) = pair.left.stats().choices
    assert "shm" in choice
    assert pair.near.peer.fabric == "shm"
    assert pair.near.peer.fabric_reason
    assert pair.near.peer.endpoint == pair.right.endpoint
    assert pair.near.peer.uuid == pair.right.uuid
    assert pair.near.peer.epoch == pair.right.epoch


def test_both_sides_must_know_the_token() -> None:
    with fw.Device(token="right") as guarded, fw.Device(token=b"right") as friend:
        near, far = connected(friend, guarded)
        near.notify(1).wait()
        assert far.wait_notification(10).tag == 1
        for stranger_options in ({"token": "wrong"}, {}):
            with fw.Device(**stranger_options) as stranger:  # type: ignore[arg-type]
                with pytest.raises(fw.Unauthenticated) as raised:
                    stranger.connect(guarded.endpoint, timeout=5)
                assert isinstance(raised.value, PermissionError)
        assert guarded.stats().handshakes_refused >= 1


def test_a_closed_device_refuses_and_closes_again() -> None:
    device = fw.Device()
    device.close()
    device.close()
    for call in (lambda: device.allocate(1), lambda: device.accept(0.1)):
        with pytest.raises(fw.FailedPrecondition) as raised:
            call()
        assert isinstance(raised.value, RuntimeError)


def test_goes_away_with_its_last_reference() -> None:
    device = fw.Device()
    gone = weakref.ref(device)
    del device
    gc.collect()
    assert gone() is None


KEPT: list[fw.RemoteArray] = []


def _look_up_and_close(state: PeerState, endpoint: str) -> None:
    for _ in range(TIMES):
        with fw.Device() as device:
            KEPT.append(device.connect(endpoint, 20).lookup("x", 10))
    for handle in KEPT:
        with pytest.raises(fw.Error):
            handle.alias()


def test_a_handle_that_outlives_its_device_leaves_nothing_with_the_peer(
    make_link: Callable[..., Link],
) -> None:
    link = make_link()
    with fw.Device() as device:
        device.publish("x", device.allocate(1000))
        with fw.Device() as first:  # what is opened once
            connected(first, device)[1].close()
        before = len(os.listdir("/proc/self/fd"))
        link.peer.start(_look_up_and_close, device.endpoint)
        channels = [device.accept(20) for _ in range(TIMES)]
        link.peer.result()
        while channels:
            channels.pop().close()
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
