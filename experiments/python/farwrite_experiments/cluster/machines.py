"""The machines of a run: network namespaces around a switch, with shaped links, or the loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.cluster.process import Task
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.cluster.namespace import Namespace, enter
from farwrite_experiments.cluster.shaper import DEVICE, QUEUE_SECONDS, Shape

NETWORK = "10.78.0"
"""The first three numbers of the machines' addresses. Nothing outside the namespaces sees them."""
BURST_SECONDS = 1e-3
"""How long a link that was idle may send faster than its rate; packets of 64 KiB must fit."""
LEAST_BURST = 256 * 2**10
NEEDS = "iproute2's ip and tc"
TC, OWN = "tc", "own"
"""What shapes links: the kernel's tbf and netem, or `farwrite_experiments.cluster.shaper`."""


@dataclass(frozen=True)
class Machine:
    """Where the tasks of one machine run."""

    address: str
    enter: Callable[[], None] | None = None
    """Moves a process into its network; None stays where the parent is."""


def why_no_namespaces() -> str | None:
    """Say why this run has no machines of its own; None if it has."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return f"network namespaces need {NEEDS}, and no folder of PATH has them"
    try:
        Namespace().close()
    except FailedPrecondition as error:
        return str(error)
    return None


def shaped_by(link: Link) -> str:
    """Return what gives a link its rate and its delay here: `TC`, or `OWN` where it cannot."""
    try:
        with Namespace() as probe:
            _shape(probe, "lo", link)
    except FailedPrecondition:
        return OWN
    return TC


def on_loopback(count: int) -> list[Machine]:
    """Return machines that are all this one."""
    return [Machine("127.0.0.1")] * count


@contextlib.contextmanager
def machines(count: int, link: Link | None, logs: Path) -> Iterator[list[Machine]]:
    """Make `count` machines around a switch, and remove them.

    Parameters
    ----------
    count : int
        The machines.
    link : Link, optional
        What joins each of them to the switch. Its rate holds for each direction. Each machine also
        has a loopback, whose rate nothing limits. None: all machines are this one.
    logs : Path
        Folder for the output of the switch, where it is our own.

    Raises
    ------
    FailedPrecondition
        If `why_no_namespaces` has a reason.
    """
    if link is None:
        yield on_loopback(count)
        return
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(Namespace()) for _ in range(count)]
        addresses = [f"{NETWORK}.{number + 1}" for number in range(count)]
        if shaped_by(link) == TC:
            _join(stack.enter_context(Namespace()), inside, link)
        else:
            switch = Task("switch", "farwrite_experiments.cluster.shaper", {}, logs / "switch.log")
            stack.enter_context(switch)
            paths = [namespace.path for namespace in inside]
            switch.send(Shape(tuple(zip(paths, addresses, strict=True)), link))
            switch.receive()
        for namespace, address in zip(inside, addresses, strict=True):
            namespace.run("ip", "link", "set", "lo", "up")
            namespace.run("ip", "address", "add", f"{address}/24", "dev", DEVICE)
            namespace.run("ip", "link", "set", DEVICE, "up")
        yield [
            Machine(address, partial(enter, namespace.path))
            for address, namespace in zip(addresses, inside, strict=True)
        ]


def _join(switch: Namespace, machines: Sequence[Namespace], link: Link) -> None:
    """Make the cables between machines and the kernel's switch."""
    switch.run("ip", "link", "add", "switch", "type", "bridge")
    switch.run("ip", "link", "set", "switch", "up")
    for number, inside in enumerate(machines):
        port = f"port{number}"
        cable = ("type", "veth", "peer", "name", DEVICE, "netns", inside.path)
        switch.run("ip", "link", "add", port, *cable)
        switch.run("ip", "link", "set", port, "master", "switch", "up")
        # What a machine sends waits at its end of the cable, what it receives at the switch's.
        _shape(inside, DEVICE, link)
        _shape(switch, port, link)


def _shape(namespace: Namespace, device: str, link: Link) -> None:
    burst = max(int(link.bytes_s * BURST_SECONDS), LEAST_BURST)
    where = ("tc", "qdisc", "add", "dev", device)
    rate = ("rate", f"{link.rate:.0f}bit", "burst", str(burst))
    queue = ("latency", f"{QUEUE_SECONDS * 1e3:g}ms")
    namespace.run(*where, "root", "handle", "1:", "tbf", *rate, *queue)
    if link.delay:
        # Half at each end of a cable: a packet passes two of them, at the other end of each.
        delay = ("delay", f"{link.delay / 2 * 1e6:.0f}us", "limit", "100000")
        namespace.run(*where, "parent", "1:1", "netem", *delay)
