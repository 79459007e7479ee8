"""Two hosts on one machine: network namespaces with a cable between them.

Needs root and iproute2. A namespace has no route to anywhere but the other one, and goes with the
context, whatever happened inside.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Host:
    """One end of the cable."""

    namespace: str
    interface: str
    address: str

    def command(self, *words: str) -> list[str]:
        """Make a command run on this host."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def plug(self, up: bool) -> None:
        """Plug the cable in here, or pull it."""
        _ip("-n", self.namespace, "link", "set", self.interface, "up" if up else "down")
        if up:
            # An IPv6 address goes with the interface and has to come back.
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*self._add_ipv6())

    def _add_ipv6(self) -> tuple[str, ...]:
        number = self.address.rsplit(".", 1)[1]
        words = ("-n", self.namespace, "addr", "add", f"fd00:fa12::{number}/64")
        return (*words, "dev", self.interface, "nodad")

    @property
    def ipv6(self) -> str:
        """The address of version 6."""
        return f"fd00:fa12::{self.address.rsplit('.', 1)[1]}"


def skip_unless_possible() -> None:
    """Skip the test that calls it where no namespace can be made."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root: run the tests as root")
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need the program ip: install iproute2")
    probe = f"fw-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"this machine lets nobody make a network namespace: {made.stderr.strip()}")
    _ip("netns", "del", probe)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts, 10.91.0.1 and 10.91.0.2, with a cable between them."""
    skip_unless_possible()
    hosts = tuple(
        Host(f"fw-{os.getpid()}-{number}", f"fw{number}", f"10.91.0.{number}") for number in (1, 2)
    )
    with contextlib.ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", host.namespace)
            stack.callback(subprocess.run, ["ip", "netns", "del", host.namespace], check=True)
        first, second = hosts
        words = ["link", "add", first.interface, "netns", first.namespace, "type", "veth"]
        _ip(*words, "peer", "name", second.interface, "netns", second.namespace)
        for host in hosts:
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", host.interface)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            host.plug(True)
        yield first, second
