"""What one run of ``bench convergence`` does, and what its first worker answers."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_experiments.convergence.data.data import Data
from farwrite_experiments.convergence.pace import Pace
from farwrite_experiments.train.plan import Layout, Way


@dataclass(frozen=True)
class Job:
    """A task with its data, on servers and workers."""

    task: str
    data: Data
    target: float
    """The quality to reach."""
    servers: int = 1
    workers: int = 2

    @property
    def layout(self) -> Layout:
        """The processes that it needs."""
        return Layout(self.servers, self.workers)


@dataclass(frozen=True)
class ConvergencePlan:
    """A whole run."""

    jobs: tuple[Job, ...]
    ways: tuple[Way, ...]
    pace: Pace


@dataclass(frozen=True)
class Block:
    """The first worker's answer to a request for steps."""

    seconds: list[float]
    """Of each step."""
    losses: list[float]
    """The mean loss of all workers, of each step."""
    longest: list[list[int]]
    """The lengths of the first worker's sequences, of each step."""
