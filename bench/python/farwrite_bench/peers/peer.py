"""What takes part in ``bench peers``, and what a turn of it gives."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from farwrite_bench.peers.site import Site

CPP, PYTHON = "C++", "Python"
LIMIT = "limit"
"""The key of the raw loop."""
FARWRITE = {CPP: "farwrite", PYTHON: "farwrite-python"}
"""The key of Farwrite by the language that drives it. A peer is compared with its own language."""


@dataclass(frozen=True)
class Latency:
    """Transfers one at a time."""

    samples_us: list[float]
    bad: int


@dataclass(frozen=True)
class Stream:
    """Transfers of which several were under way."""

    transfers: int
    seconds: float
    cpu_seconds: float
    bad: int
    copies: float | None = None
    """Passes over the payload, for each transfer, where the library counts them."""


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

    def latency(self, size: int, transfers: int) -> Latency:
        """Make transfers one at a time."""

    def stream(self, size: int, transfers: int) -> Stream:
        """Make transfers, the window of the plan at a time."""


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
