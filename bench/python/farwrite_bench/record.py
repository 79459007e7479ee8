"""What every benchmark prints and writes about its run: the machine, its load, and notes."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from farwrite_bench.machine import busy_note, load, machine

QUICK_NOTE = "a quick run: do not quote these figures"


class Record:
    """The notes and the facts of one run of a benchmark. Make it before anything is measured.

    Parameters
    ----------
    benchmark : str
        The name of the benchmark's subcommand. The JSON file has it as ``benchmark``.
    quick : bool
        Whether the run is a short one, of ``--quick``. The JSON file has it as ``quick``.
    """

    def __init__(self, benchmark: str, *, quick: bool) -> None:
        self.benchmark = benchmark
        self.quick = quick
        self.date = datetime.now().astimezone().isoformat(timespec="seconds")
        self.load = load()
        doubts = [busy_note(self.load), QUICK_NOTE if quick else None]
        self.notes: list[str] = [note for note in doubts if note]

    @cached_property
    def machine(self) -> dict[str, Any]:
        """The machine and the build."""
        return machine()

    def announce(self, seconds: float | None = None) -> None:
        """Print the notes on stderr, and about how long the run takes."""
        for note in self.notes:
            print(f"farwrite bench: {note}", file=sys.stderr)
        if seconds is not None:
            print(
                f"farwrite bench: this takes about {math.ceil(seconds / 60)} min", file=sys.stderr
            )

    def conditions(self) -> str:
        """Describe the machine and its load in one line."""
        known = self.machine
        return f"{known['cpu']}, {known['cpus']} CPUs, Linux {known['kernel']}, load {self.load[0]}"

    def facts(self, notes: Sequence[str] = (), **measured: Any) -> dict[str, Any]:
        """Return what the JSON file holds: `measured`, and the facts of every benchmark.

        Parameters
        ----------
        notes : sequence of str
            Notes that explain the figures. They follow those of this run.
        """
        return {
            "benchmark": self.benchmark,
            "quick": self.quick,
            "date": self.date,
            "machine": self.machine,
            "load": self.load,
            "notes": [*self.notes, *notes],
            **measured,
        }
