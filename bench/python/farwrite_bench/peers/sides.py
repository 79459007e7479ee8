"""The command's side of the peers: where they are started, and orders to both of their sides."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from farwrite_bench.cluster.control import START_SECONDS, Control, receive_all
from farwrite_bench.cluster.process import MALLOC, Task
from farwrite_bench.p2p import pair
from farwrite_bench.peers.end import End, Setup
from farwrite_bench.peers.loop import Loop
from farwrite_bench.peers.peer import Figures
from farwrite_bench.peers.plan import Plan
from farwrite_bench.peers.pool import Pools, shared_pools

LOOP_SECONDS = 90.0
"""The longest that a loop may take, of which the slowest library takes a few seconds."""


@dataclass
class Ground:
    """What all peers of a run share. `stack` frees it."""

    plan: Plan
    logs: Path
    stack: contextlib.ExitStack

    @cached_property
    def pools(self) -> tuple[Pools, Pools]:
        """The pools that all libraries with a Python API share: the receivers', the senders'."""
        return self.stack.enter_context(shared_pools(self.plan.pool_bytes))

    @cached_property
    def pair(self) -> pair.Pair:
        """The processes of Farwrite's C++ loops, which also run the raw loop."""
        setup = pair.Setup("write", "shm", 1, self.plan.pool_bytes, "poll")
        return self.stack.enter_context(pair.Pair(setup, self.logs / "farwrite.log"))


@dataclass
class Site:
    """The place of one peer. `stack` ends the processes that were started in it."""

    key: str
    ground: Ground
    stack: contextlib.ExitStack

    @cached_property
    def folder(self) -> Path:
        """An empty folder for sockets and files, whose path is short enough for a socket."""
        made = tempfile.TemporaryDirectory(prefix="farwrite-peers-")
        return Path(self.stack.enter_context(made))

    def log(self, name: str) -> Path:
        """Return the file for the output of one of its processes."""
        return self.ground.logs / f"{self.key}-{name}.log"

    def task(self, name: str, environment: Mapping[str, str] | None = None) -> Task:
        """Start a side as a process, with malloc's best settings."""
        variables = {**MALLOC, **(environment or {})}
        task = Task(f"{self.key}, {name}", "farwrite_bench.peers.side", variables, self.log(name))
        return self.stack.enter_context(task)

    def open(self, control: Control, end: type[End], *, receives: bool) -> None:
        """Let a process open an end of this class. It answers with its address and settings."""
        pools = self.ground.pools[0 if receives else 1]
        control.send((end, Setup(receives, pools, str(self.folder))))

    def two_sides(self, end: type[End], controls: Sequence[Control]) -> TwoSides:
        """Open an end of this class in the receiver and in the sender, and connect them."""
        receiver, sender = controls
        self.open(receiver, end, receives=True)
        self.open(sender, end, receives=False)
        opened = receive_all((receiver, sender), START_SECONDS)
        return TwoSides(receiver, sender, opened, self.ground.plan.pool_bytes)


def in_two_processes(
    end: type[End], environment: Mapping[str, str] | None = None
) -> Callable[[Site], TwoSides]:
    """Return what starts a library whose sides are two processes with an end of this class."""

    def start(site: Site) -> TwoSides:
        return site.two_sides(
            end, (site.task("receiver", environment), site.task("sender", environment))
        )

    return start


class TwoSides:
    """A `Running` peer whose ends are in two processes, or in one process and its library's.

    Parameters
    ----------
    opened : sequence
        The address and the settings of the receiver's end, and those of the sender's.
    """

    variant = None

    def __init__(
        self, receiver: Control, sender: Control, opened: Sequence[Any], pool_bytes: int
    ) -> None:
        self._sides = receiver, sender
        self._pool_bytes = pool_bytes
        self._seed = 0
        (receivers_address, settings), (senders_address, senders_settings) = opened
        self.settings = settings or senders_settings
        receiver.send(senders_address)
        sender.send(receivers_address)
        receive_all(self._sides, START_SECONDS)

    def prepare(self, size: int) -> None:
        """Nothing depends on the size."""

    def run(self, kind: str, size: int, transfers: int) -> Figures:
        """Make the transfers of a loop."""
        receiver, sender = self._sides
        self._seed += 1
        loop = Loop(kind, size, transfers, self._seed, self._pool_bytes)
        receiver.send(loop)
        receiver.receive(LOOP_SECONDS)  # it is ready
        sender.send(loop)
        ran: Any = receive_all(self._sides, LOOP_SECONDS)
        (received, read_ns), (sent, began_ns) = ran
        one_way = [(read - began) / 1e3 for began, read in zip(began_ns, read_ns, strict=True)]
        copies = None
        if received.copies is not None and sent.copies is not None:
            copies = received.copies + sent.copies
        return Figures(
            sent.seconds,
            received.cpu_seconds + sent.cpu_seconds,
            received.bad + sent.bad,
            sent.samples_us or one_way,
            copies,
        )
