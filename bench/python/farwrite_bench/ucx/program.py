"""The running UCX program: two processes that follow orders in turn with Farwrite's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite_bench.program import Program

TUNED = {"UCX_TLS": "sm,self", "UCX_WARN_UNUSED_ENV_VARS": "n"}
"""Settings of UCX unless the environment has others: its shared memory, and copies by the kernel
(cma), without the look for adapters and GPUs."""


def settings() -> dict[str, str]:
    """Return every UCX_ variable of a run: the tuned ones, below those of the environment."""
    given = {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
    return {**TUNED, **given}


@dataclass(frozen=True)
class Figures:
    """What one loop gave. `samples_us` is empty unless transfers went one at a time."""

    seconds: float
    cpu_seconds: float
    """User and system time of both processes."""
    bad: int
    samples_us: list[float]


class UcxProgram(Program):
    """Both processes; the end of the context ends them."""

    def __init__(self, command: Sequence[object], library: Path) -> None:
        # Without it, a libucp of the system takes the place of the one that was found.
        paths = [str(library / "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        super().__init__(
            "bench peers",
            "the UCX program",
            [str(word) for word in command],
            {**settings(), "LD_LIBRARY_PATH": ":".join(paths)},
        )
        self.identity: dict[str, Any] = {}

    def __enter__(self) -> UcxProgram:
        try:
            self.identity = self.answer()
        except BaseException:
            self.end()
            raise
        return self

    def run(
        self,
        way: str,
        kind: str,
        size: int,
        transfers: int,
        *,
        window: int = 1,
        seed: int = 0,
    ) -> Figures:
        """Run one loop; `way` is "tag" or "putflag", `kind` is "latency" or "bandwidth"."""
        answer = self.ask(way, kind, size, transfers, window, seed)
        seconds, cpu_seconds = float(answer["seconds"]), float(answer["cpu_seconds"])
        return Figures(seconds, cpu_seconds, int(answer["bad"]), answer["samples_us"])
