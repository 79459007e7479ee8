"""Where the peers of a run are started: what they share, and what belongs to one of them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from farwrite_bench.cluster.control import START_SECONDS, Control, receive_all
from farwrite_bench.cluster.process import MALLOC, Task
from farwrite_bench.p2p import pair
from farwrite_bench.peers.end import End, Setup, Start
from farwrite_bench.peers.loop import Opened
from farwrite_bench.peers.pool import Pools
from farwrite_bench.peers.sides import TwoSides, expect

SIDE = "farwrite_bench.peers.side"


@dataclass
class Ground:
    """What all peers of a run share. `stack` frees it."""

    stack: contextlib.ExitStack
    logs: Path
    pool_bytes: int
    window: int
    quick: bool = False

    @cached_property
    def pools(self) -> Pools:
        """The pools that all libraries with a Python API share."""
        return self.stack.enter_context(Pools(self.pool_bytes))

    @cached_property
    def pair(self) -> pair.Pair:
        """The processes of Farwrite's C++ loops, which also run the raw loop."""
        setup = pair.Setup("write", "shm", 1, self.pool_bytes, "poll")
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
        task = Task(f"{self.key}, {name}", SIDE, variables, self.log(name))
        return self.stack.enter_context(task)

    def two_sides(
        self,
        end: type[End],
        environment: Mapping[str, str] | None = None,
        controls: tuple[Control, Control] | None = None,
    ) -> TwoSides:
        """Open two ends in two processes, and connect them.

        Parameters
        ----------
        end : type
            The class of both.
        environment : mapping
            Variables of both processes.
        controls : (Control, Control), optional
            The receiver and the sender, if they run already.
        """
        receiver, sender = controls or (
            self.task("receiver", environment),
            self.task("sender", environment),
        )
        receiver.send(self.beginning(end, receives=True))
        sender.send(self.beginning(end, receives=False))
        opened = [expect(Opened, each) for each in receive_all((receiver, sender), START_SECONDS)]
        ground = self.ground
        return TwoSides.connect(receiver, sender, opened, ground.pool_bytes, ground.window)

    def beginning(self, end: type[End], *, receives: bool) -> Start:
        """Return the first order to a side."""
        out, into = self.ground.pools.areas(receives=receives)
        return Start(end, Setup(receives, out, into, str(self.folder)))


def in_two_processes(
    end: type[End], environment: Mapping[str, str] | None = None
) -> Callable[[Site], TwoSides]:
    """Return what starts a library whose sides are two processes with an end of this class."""
    return lambda site: site.two_sides(end, environment)
