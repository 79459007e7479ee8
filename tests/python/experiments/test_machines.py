"""The machines of bench scaling: network namespaces, and their shaped links."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from farwrite.errors import FailedPrecondition
from farwrite_experiments.cluster import machines as module
from farwrite_experiments.cluster.link import Link, parse_link
from farwrite_experiments.cluster.machines import OWN, TC, machines, on_loopback, why_no_namespaces
from farwrite_experiments.cluster.namespace import Namespace, enter
from farwrite_experiments.cluster.shaper import Port, Switch

HERE = Path("/proc/self/ns/net")


@pytest.fixture
def possible() -> None:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(f"no network namespaces: {reason}")


@pytest.mark.parametrize(
    ("text", "rate", "delay"),
    [("10G", 10e9, 0.0), ("2.5G", 2.5e9, 0.0), ("500M", 5e8, 0.0), ("1Gbit/50us", 1e9, 50e-6)],
)
def test_links_are_read(text: str, rate: float, delay: float) -> None:
    assert parse_link(text) == Link(rate, pytest.approx(delay))


@pytest.mark.parametrize("text", ["10", "G", "0G", "10GB/s", "1G/soon", "-1G", ""])
def test_what_is_no_link_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a link"):
        parse_link(text)


def test_a_link_names_its_rate_and_its_delay() -> None:
    assert [str(Link(10e9)), str(Link(5e8)), str(Link(1e9, 50e-6))] == [
        "10Gbit/s",
        "500Mbit/s",
        "1Gbit/s, 50 us",
    ]


def test_machines_on_the_loopback_are_this_one() -> None:
    first, second = on_loopback(2)
    assert first == second
    assert (first.address, first.enter) == ("127.0.0.1", None)


def test_without_root_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    assert why_no_namespaces() == "network namespaces need root"


def test_without_tc_the_reason_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "geteuid", lambda: 0)
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    assert "iproute2" in (why_no_namespaces() or "")


def test_what_is_no_namespace_cannot_be_entered(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="is no network namespace"):
        enter(str(tmp_path / "none"))


def in_namespace(path: str, code: str, *words: str) -> subprocess.Popen[str]:
    program = f"from farwrite_experiments.cluster.namespace import enter; enter({path!r})\n{code}"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True
    )


SERVE = """
import socket, sys
with socket.create_server((sys.argv[1], 20000)) as server:
    print("listening", flush=True)
    peer, _ = server.accept()
    print(peer.getpeername()[0], peer.recv(100).decode())
"""
ROUTES = """
import os
os.execvp("ip", ["ip", "route"])
"""
ASK = """
import socket, sys
socket.create_connection((sys.argv[1], 20000)).sendall(b"hello")
"""


@pytest.mark.namespaces
@pytest.mark.usefixtures("possible")
# The switch of ours opens /dev/net/tun, which a user namespace does not allow.
@pytest.mark.parametrize("shaper", [TC, pytest.param(OWN, marks=pytest.mark.root)])
def test_machines_reach_each_other_and_have_no_other_route(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shaper: str
) -> None:
    monkeypatch.setattr(module, "shaped_by", lambda _: shaper)
    before = HERE.stat().st_ino
    with machines(3, Link(1e9), tmp_path) as made:
        serving, asking = made[0], made[2]
        paths = [each.enter.args[0] for each in (serving, asking)]
        with in_namespace(paths[0], SERVE, serving.address) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "listening\n"
            with in_namespace(paths[1], ASK, serving.address) as asked:
                assert asked.wait(30) == 0
            assert server.stdout.read() == f"{asking.address} hello\n"
        with in_namespace(paths[1], ROUTES) as routes:
            assert routes.stdout is not None
            assert [line.split()[0] for line in routes.stdout] == ["10.78.0.0/24"]
    assert HERE.stat().st_ino == before


@pytest.mark.namespaces
@pytest.mark.usefixtures("possible")
def test_both_ends_of_a_link_are_shaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Namespace] = []

    class Kept(Namespace):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(module, "Namespace", Kept)
    with machines(2, Link(5e8), tmp_path):
        # One that was closed has no file any more, or that of the next one.
        there = {each.path: each for each in made if Path(each.path).exists()}
        shown = [namespace.run("tc", "qdisc", "show") for namespace in there.values()]
    # Of the two machines, and of the switch.
    assert sorted(text.count("tbf") for text in shown) == [1, 1, 2]
    assert all("rate 500Mbit" in text for text in shown)


@pytest.mark.namespaces
@pytest.mark.usefixtures("possible")
def test_a_namespace_ends_with_its_last_user() -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with Namespace() as made:
        path = made.path
        made.run("ip", "link", "add", "one", "type", "bridge")
        assert "one" in made.run("ip", "link")
    assert not Path(path).exists()
    assert len(os.listdir("/proc/self/fd")) == open_before


@pytest.mark.namespaces
@pytest.mark.usefixtures("possible")
def test_a_command_that_fails_says_why() -> None:
    with Namespace() as made, pytest.raises(FailedPrecondition, match="`ip link show none` failed"):
        made.run("ip", "link", "show", "none")


def test_our_own_switch_keeps_rate_delay_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[bytes] = []
    monkeypatch.setattr("os.write", lambda _, packet: passed.append(bytes(packet)))
    there = socket.inet_aton("10.78.0.2")

    def packet(number: int) -> memoryview:
        return memoryview(bytes(10 + 16) + there + bytes([number]) * 970)

    sender = Port(1)
    # 1 MB a second, so that a packet of 990 bytes takes about a millisecond, and 5 ms of delay.
    switch = Switch({there: Port(2)}, Link(8e6, 5e-3))
    for number in (1, 2):
        switch.take(sender, packet(number), 100.0)
    assert switch.pass_on(100.005) == pytest.approx(0.00099, abs=1e-5)
    assert passed == []
    assert switch.pass_on(100.0061) == pytest.approx(0.00088, abs=1e-5)
    assert [each[-1] for each in passed] == [1]
    assert switch.pass_on(100.1) is None
    assert [each[-1] for each in passed] == [1, 2]


def test_our_own_switch_drops_what_no_queue_holds() -> None:
    there = socket.inet_aton("10.78.0.2")
    switch = Switch({there: Port(2)}, Link(8e6))
    sender = Port(1)
    for _ in range(100):
        switch.take(sender, memoryview(bytes(26) + there + bytes(970)), 0.0)
    # 50 ms hold about 50 packets.
    assert 48 <= len(switch._waiting) <= 53
    switch.take(sender, memoryview(bytes(30)), 0.0)  # for nothing
