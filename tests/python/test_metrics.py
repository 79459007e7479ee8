"""Metrics: the text format, what is in it, and the HTTP endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import inspect
import re
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import farwrite as fw
import farwrite.box
from conftest import Link, Pair, connected
from farwrite.metrics import server as metrics_server
from farwrite.metrics.counter import COUNTERS
from farwrite.metrics.endpoint import merged, parse_address
from farwrite.metrics.server import CONNECTIONS

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} ([0-9]+(?:\.[0-9]{{9}})?)")

Samples = dict[tuple[str, frozenset[tuple[str, str]]], int]


def parse(text: str) -> Samples:
    """Read the exposition format, and be strict about it."""
    samples: Samples = {}
    families: set[str] = set()
    family, kind = "", ""
    assert text.endswith("\n")
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            family, _, told = line.removeprefix("# HELP ").partition(" ")
            assert told, f"no help: {line}"
            assert family not in families, f"twice: {line}"
            families.add(family)
            kind = ""
        elif line.startswith("# TYPE "):
            assert not kind
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert name == family
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total"), line
        else:
            found = SAMPLE.fullmatch(line)
            assert found is not None, f"no sample: {line}"
            assert found[1] == family
            assert kind
            labels = re.findall(rf"({NAME})=\"((?:[^\"\\]|\\.)*)\"", found[2])
            assert len({name for name, _ in labels}) == len(labels)
            key = (found[1], frozenset(labels))
            assert key not in samples, f"twice: {line}"
            # Attributes are in nanoseconds.
            samples[key] = (
                round(float(found[3]) * 1e9)
                if found[1].endswith("_seconds_total")
                else int(found[3])
            )
    return samples


def value(samples: Samples, name: str, **labels: object) -> int:
    """Return the one sample of `name` that has these labels."""
    wanted = {(label, str(text)) for label, text in labels.items()}
    (found,) = [count for (key, has), count in samples.items() if key == name and wanted <= has]
    return found


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        text: str = answer.read().decode()
        return text


CHANNEL_METRICS: dict[str, tuple[str, dict[str, str]]] = {
    "writes": ("operations_total", {"operation": "write", "direction": "out"}),
    "reads": ("operations_total", {"operation": "read", "direction": "in"}),
    "aliases": ("operations_total", {"operation": "alias", "direction": "in"}),
    "bytes_written": ("bytes_total", {"operation": "write", "direction": "out"}),
    "bytes_read": ("bytes_total", {"operation": "read", "direction": "in"}),
    "bytes_aliased": ("bytes_total", {"operation": "alias", "direction": "in"}),
    "copies": ("copies_total", {}),
    "notifications_sent": ("notifications_total", {"direction": "out"}),
    "notifications_received": ("notifications_total", {"direction": "in"}),
    "messages_sent": ("messages_total", {"direction": "out"}),
    "messages_received": ("messages_total", {"direction": "in"}),
    "backlogged": ("backlogged_total", {}),
    "doorbells": ("doorbells_total", {}),
    "leases_granted": ("leases_granted_total", {}),
    "leases_released": ("leases_released_total", {}),
    "leases_held": ("leases_held", {}),
    "quarantined_bytes": ("quarantined_bytes", {}),
    "silences": ("silences_total", {}),
}

DEVICE_METRICS = {
    "registrations": "farwrite_registrations_total",
    "channels_opened": "farwrite_channels_opened_total",
    "channels_open": "farwrite_channels_open",
    "handshakes_refused": "farwrite_handshakes_refused_total",
    "leases_held_by_peers": "farwrite_leases_held_by_peers",
    "quarantined_bytes": "farwrite_quarantined_bytes",
}

ADAPTER_METRICS = {
    "segments": "farwrite_adapter_segment_registrations_total",
    "on_demand": "farwrite_adapter_on_demand_registrations_total",
    "live": "farwrite_adapter_registrations",
    "live_bytes": "farwrite_adapter_registered_bytes",
    "nanoseconds": "farwrite_adapter_registration_seconds_total",
    "transfers": "farwrite_adapter_transfers_total",
    "transfers_registered": "farwrite_adapter_transfers_registered_total",
}

GPU_METRICS = {
    "mappings": "farwrite_gpu_mappings_total",
    "mapped_bytes": "farwrite_gpu_mapped_bytes",
    "copies": "farwrite_gpu_copies_total",
    "copied_bytes": "farwrite_gpu_copied_bytes_total",
    "staged_bytes": "farwrite_gpu_staged_bytes_total",
    "pins": "farwrite_gpu_pins_total",
    "pinned_bytes": "farwrite_gpu_pinned_bytes",
}

MEMORY_METRICS = {
    "limit": "farwrite_memory_limit_bytes",
    "reserved": "farwrite_memory_reserved_bytes",
    "used": "farwrite_memory_used_bytes",
    "peak_used": "farwrite_memory_peak_used_bytes",
    "segments": "farwrite_memory_segments",
    "refusals": "farwrite_memory_refusals_total",
    "held_back": "farwrite_memory_held_back_bytes",
}


def test_every_counter_of_the_core_is_a_documented_attribute() -> None:
    parts = {"send", "receive", "adapters", "gpu", "choices"}
    classes = [fw.MemoryStats, fw.AdapterStats, fw.GpuStats, fw.DeviceStats, fw.ChannelStats,
               fw.TensorStats, fw.box.ClientStats, fw.box.ServerStats]  # fmt: skip
    assert {stats.__name__ for stats in classes} == set(COUNTERS)
    for stats in classes:
        counters = COUNTERS[stats.__name__]
        names = {field.name for field in dataclasses.fields(stats)} - parts
        assert names == {counter.name for counter in counters}
        for counter in counters:
            assert f"\n{counter.name} : int" in (inspect.getdoc(stats) or "")
            assert counter.meaning.endswith(".")


def _busy(pair: Pair) -> list[object]:
    """Do some of everything; return what holds leases, so that nothing moves any more."""
    inbox = pair.far.publish("inbox", pair.far.allocate(1000))
    outbox = pair.left.publish("outbox", pair.left.allocate(300))
    remote = pair.near.lookup("inbox")
    pair.near.write(np.ones(1000, "uint8"), remote, notify=3).wait()
    pair.near.send(b"hello").wait()
    looked_up = pair.far.lookup("outbox")
    looked_up.read()
    view = looked_up.alias()
    for _ in range(2):
        pair.far.wait_notification(10)
    return [inbox, outbox, remote, looked_up, view]


def test_everything_that_stats_tell_is_in_the_metrics(pair: Pair) -> None:
    held = _busy(pair)
    samples = parse(pair.left.metrics())
    device = pair.left.stats()
    assert {field.name for field in dataclasses.fields(device)} == {
        *DEVICE_METRICS, "send", "receive", "adapters", "gpu", "choices",
    }  # fmt: skip
    for field, name in DEVICE_METRICS.items():
        assert value(samples, name) == getattr(device, field)
    assert {field.name for field in dataclasses.fields(device.adapters)} == set(ADAPTER_METRICS)
    for field, name in ADAPTER_METRICS.items():
        assert value(samples, name) == getattr(device.adapters, field)
    assert {field.name for field in dataclasses.fields(device.gpu)} == set(GPU_METRICS)
    for field, name in GPU_METRICS.items():
        assert value(samples, name) == getattr(device.gpu, field)
    for direction in ("send", "receive"):
        memory = getattr(device, direction)
        assert {field.name for field in dataclasses.fields(memory)} == set(MEMORY_METRICS)
        for field, name in MEMORY_METRICS.items():
            assert value(samples, name, direction=direction) == getattr(memory, field)
    assert value(samples, "farwrite_channel_info", peer=pair.right.endpoint, fabric="shm") == 1
    del held


def test_everything_that_a_channels_stats_tell_is_in_the_metrics(pair: Pair) -> None:
    held = _busy(pair)
    for device, channel in ((pair.left, pair.near), (pair.right, pair.far)):
        samples = parse(device.metrics())
        counts = channel.stats()
        assert {field.name for field in dataclasses.fields(counts)} == set(CHANNEL_METRICS)
        for field, (name, labels) in CHANNEL_METRICS.items():
            told = value(samples, f"farwrite_channel_{name}", **labels)
            assert told == getattr(counts, field), field
    assert counts.bytes_read == 300
    assert counts.leases_held == 1
    del held


def test_totals_do_not_fall_when_a_channel_goes(pair: Pair) -> None:
    _busy(pair)
    labels = {"fabric": "shm", "operation": "write"}
    assert value(parse(pair.left.metrics()), "farwrite_bytes_total", **labels) == 1000
    pair.near.close()
    pair.far.close()
    samples = parse(pair.left.metrics())
    assert value(samples, "farwrite_bytes_total", **labels) == 1000
    assert value(samples, "farwrite_operations_total", **labels) == 1


def test_a_channel_that_is_gone_leaves_its_totals_only(pair: Pair) -> None:
    pair.near.notify(1).wait()
    pair.near.close()
    pair.far.close()
    pair.left.close()
    samples = parse(pair.left.metrics())
    assert not [name for name, _ in samples if name.startswith("farwrite_channel_")]
    assert value(samples, "farwrite_notifications_total", fabric="shm", direction="out") == 1


def test_two_channels_to_one_peer_are_told_apart(pair: Pair) -> None:
    near, far = connected(pair.left, pair.right)
    near.notify(1).wait()
    samples = parse(pair.left.metrics())
    counts = sorted(
        count
        for (name, labels), count in samples.items()
        if name == "farwrite_channel_notifications_total" and ("direction", "out") in labels
    )
    assert counts == [0, 1]
    near.close()
    far.close()


def test_the_peers_state_is_told(link: Link) -> None:
    peer = {"peer": link.channel.peer.endpoint}
    samples = parse(link.device.metrics())
    assert value(samples, "farwrite_channel_peer_state", state="alive", **peer) == 1
    link.peer.kill()
    with pytest.raises(fw.PeerDead):
        link.channel.wait_notification(20)
    samples = parse(link.device.metrics())
    assert value(samples, "farwrite_channel_peer_state", state="alive", **peer) == 0
    assert value(samples, "farwrite_channel_peer_state", state="dead", **peer) == 1


def test_metrics_are_served_over_http(pair: Pair) -> None:
    url = pair.left.serve_metrics()
    assert url.startswith("http://127.0.0.1:")
    _busy(pair)
    samples = parse(_get(url))
    assert value(samples, "farwrite_bytes_total", operation="write", fabric="shm") == 1000
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(url.removesuffix("/metrics"), timeout=10)
    assert raised.value.code == 404
    raised.value.close()
    pair.left.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=10)


def test_devices_of_a_process_share_an_address(pair: Pair) -> None:
    url = pair.left.serve_metrics()
    address = url.removeprefix("http://").removesuffix("/metrics")
    assert pair.right.serve_metrics(address) == url
    samples = parse(_get(url))
    for device in (pair.left, pair.right):
        assert value(samples, "farwrite_channels_open", device=device.endpoint) == 1
    pair.left.close()
    samples = parse(_get(url))
    assert value(samples, "farwrite_channels_open", device=pair.right.endpoint) is not None


def test_an_address_that_is_taken_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with fw.Device() as device, pytest.raises(fw.AlreadyExists, match=address):
            device.serve_metrics(address)
        with pytest.raises(fw.AlreadyExists, match="metrics"):
            fw.Device(metrics=address)


def test_the_environment_names_the_address(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        monkeypatch.setenv("FARWRITE_METRICS", f"127.0.0.1:{port}")
        # A process that inherits the variable must work nevertheless.
        with fw.Device():
            assert "FARWRITE_METRICS" in capfd.readouterr().err
    with fw.Device() as device:
        samples = parse(_get(f"http://127.0.0.1:{port}/metrics"))
        assert value(samples, "farwrite_channels_open", device=device.endpoint) == 0


def test_a_closed_device_serves_no_metrics() -> None:
    device = fw.Device()
    device.close()
    with pytest.raises(fw.FailedPrecondition, match="closed"):
        device.serve_metrics()


def _is_ended_by_the_server(client: socket.socket) -> bool:
    try:
        client.sendall(b"X")
        client.settimeout(0.1)
        return client.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_client_that_dribbles_holds_its_thread_for_a_bounded_time(
    device: fw.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.5)
    address = parse_address(device.serve_metrics().split("/")[2])
    with socket.create_connection(address) as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n")
        give_up = time.monotonic() + 10
        while not _is_ended_by_the_server(client):
            assert time.monotonic() < give_up, "a byte now and then keeps the request alive"


def test_the_oldest_connection_makes_room_for_a_scrape(device: fw.Device) -> None:
    url = device.serve_metrics()
    address = parse_address(url.split("/")[2])
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(address)) for _ in range(2 * CONNECTIONS)
        ]
        assert "farwrite_channels_open" in _get(url)
        clients[0].settimeout(20)
        assert clients[0].recv(1) == b""
        serving = [one for one in threading.enumerate() if "process_request" in one.name]
        assert len(serving) <= 2 * CONNECTIONS


def test_a_thread_that_begins_after_an_interrupted_start_serves_nothing(
    device: fw.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[threading.Thread] = []

    class Interrupted(threading.Thread):
        def start(self) -> None:
            began.append(self)
            raise KeyboardInterrupt

    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            device.serve_metrics("127.0.0.1:0")
    threading.Thread.start(began[0])
    began[0].join(20)
    assert not began[0].is_alive()
    assert failed == []


@pytest.mark.parametrize(
    ("says", "kind"),
    [("of the program", RuntimeError), ("can't start new thread", fw.ResourceExhausted)],
)
def test_an_error_of_a_signal_handler_is_not_taken_for_a_refused_thread(
    says: str, kind: type[Exception], device: fw.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError(says)

    with fw.box.serve(memory="8M", pool="1M") as server, server.connect() as client:
        segment = client.create("w", 4)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(kind, match=says) as raised:
                device.serve_metrics("127.0.0.1:0")
            assert type(raised.value) is kind
            with pytest.raises(kind, match=says) as raised:
                asyncio.run(segment.read_async())
            assert type(raised.value) is kind


def test_the_endpoint_goes_with_its_device() -> None:
    device = fw.Device()
    device.serve_metrics()
    del device
    gc.collect()  # nothing_left_behind sees whether thread and socket go


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_addresses_are_read_as_people_write_them(address: str, parsed: tuple[str, int]) -> None:
    assert parse_address(address) == parsed


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:", "127.0.0.1:99999", "a:-1"])
def test_what_is_no_address_is_refused(address: str, device: fw.Device) -> None:
    with pytest.raises(fw.InvalidArgument, match="port"):
        device.serve_metrics(address)


def test_metrics_of_two_sources_are_joined_family_by_family() -> None:
    left = '# HELP a_total A.\n# TYPE a_total counter\na_total{d="1"} 1\n'
    right = (
        '# HELP b B.\n# TYPE b gauge\nb{d="2"} 2\n'
        '# HELP a_total A.\n# TYPE a_total counter\na_total{d="2"} 3\n'
    )
    whole = parse(merged([left, right]))
    assert sorted(whole.values()) == [1, 2, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        'a_total{d="1"} 1\n',
        "# HELP a_total A.\n# TYPE a_total gauge\n",
        '# HELP a A.\n# TYPE a gauge\na{d="1"} 1\na{d="1"} 2\n',
        '# HELP a A.\n# TYPE a gauge\na{d="1""} 1\n',
        '# HELP a A.\n# TYPE a gauge\na{d="1"} 1',
    ],
)
def test_the_checker_is_strict(wrong: str) -> None:
    with pytest.raises(AssertionError):
        parse(wrong)
