"""What takes part in ``bench peers``, and the figures of its turns."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from farwrite_bench.peers.sides import Site

CPP, PYTHON = "C++", "Python"
LIMIT = "limit"
"""The key of the raw loop."""
FARWRITE = {CPP: "farwrite", PYTHON: "farwrite-python"}
"""The key of Farwrite by the language that drives it. A peer is compared with its own language."""
LATENCY, BANDWIDTH = "latency", "bandwidth"
"""The two loops of a turn: transfers one at a time, and as many under way as the window holds."""


@dataclass(frozen=True)
class Figures:
    """The figures of a loop, of one side or of both."""

    seconds: float
    cpu_seconds: float
    """User and system time of all threads, and of the library's other processes."""
    bad: int
    """Transfers with wrong bytes, and those that came twice or never."""
    samples_us: list[float]
    """The times of transfers that were made one at a time."""
    copies: float | None = None
    """Passes over all payloads, where the library counts them."""


class Running(Protocol):
    """A peer whose processes are alive. Errors are `farwrite.Error`."""

    @property
    def settings(self) -> str:
        """Version and settings, for people."""

    @property
    def variant(self) -> str | None:
        """The way that is measured at this size, of a peer that has several."""

    def prepare(self, size: int) -> None:
        """Get ready for a size, which is not measured."""

    def run(self, kind: str, size: int, transfers: int) -> Figures:
        """Make the transfers of a loop."""


@dataclass(frozen=True)
class Peer:
    """One that takes part."""

    key: str
    name: str
    language: str
    """What drives it: `CPP` or `PYTHON`."""
    start: Callable[[Site], Running]
    """Starts its processes, which end with the site."""
    module: str | None = None
    """The module that must be installed."""
    install: str = ""
    """The command that installs it."""
    copies: Callable[[int], int | None] = field(default=lambda _: None)
    """Passes over the payload of a size, from the library's documented way; None if unknown. A
    pass through a socket is two: into the kernel and out of it."""
    ahead: str = ""
    """Why it may be ahead of Farwrite."""
    memory: float = 0.0
    """Memory that it takes besides the shared pools, in pools."""

    def is_missing(self) -> bool:
        """Whether its module is not installed."""
        if self.module is None:
            return False
        try:
            return importlib.util.find_spec(self.module) is None
        except ModuleNotFoundError:  # of the package that holds the module
            return True
