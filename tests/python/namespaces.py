"""Two hosts on one machine: network namespaces with a cable between them.

Needs iproute2, and root or the root of a user namespace (tools/as_namespace_root.sh).
A namespace has no route to anywhere but the other one. The kernel removes it with its last user.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from farwrite.errors import FailedPrecondition
from farwrite_experiments.cluster.machines import why_no_namespaces
from farwrite_experiments.cluster.namespace import Namespace

CABLE = "cable"
"""The name of each end."""


@dataclass(frozen=True)
class Host:
    """One end of the cable."""

    namespace: Namespace
    number: int

    @property
    def address(self) -> str:
        """The address of version 4."""
        return f"10.91.0.{self.number}"

    @property
    def ipv6(self) -> str:
        """The address of version 6."""
        return f"fd00:fa12::{self.number}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words in front of a command that make it run on this host."""
        return ("nsenter", f"--net={self.namespace.path}", "--")

    def command(self, *words: str) -> list[str]:
        """Make a command run on this host."""
        return [*self.prefix, *words]

    def plug(self, up: bool) -> None:
        """Plug the cable in here, or pull it."""
        self.namespace.run("ip", "link", "set", CABLE, "up" if up else "down")
        if up:
            # An IPv6 address goes with the interface and has to come back. Some kernels have none.
            words = ("ip", "address", "add", f"{self.ipv6}/64", "dev", CABLE, "nodad")
            with contextlib.suppress(FailedPrecondition):
                self.namespace.run(*words)


@contextlib.contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts, 10.91.0.1 and 10.91.0.2. Skip the test where no namespace can be made."""
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(f"no network namespaces: {reason}")
    with Namespace() as here, Namespace() as there:
        ends = ("type", "veth", "peer", "name", CABLE, "netns", there.path)
        here.run("ip", "link", "add", CABLE, *ends)
        hosts = (Host(here, 1), Host(there, 2))
        for host in hosts:
            host.namespace.run("ip", "address", "add", f"{host.address}/24", "dev", CABLE)
            host.namespace.run("ip", "link", "set", "lo", "up")
            host.plug(True)
        yield hosts
