"""What one run of ``bench convergence`` does, and about how long it takes."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any

from farwrite_bench.report.parts import Row
from farwrite_experiments.convergence.data.choose import Data
from farwrite_experiments.convergence.model import Model
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.train import pace as train
from farwrite_experiments.train.plan import Layout, Way

START_SECONDS = 12.0
"""About how long it takes to start the processes of a job, twice, and to build its graphs."""
RUN_SECONDS = {"images": 18.0, "seq2seq": 30.0, "sentences": 18.0}
"""About how long a run takes one way, by task, on two processors."""


@dataclass(frozen=True)
class Pace:
    """How long a task trains, and how its emulated steps are measured."""

    runs: int
    emulated: train.Pace
    block: int
    """Steps between two measures of the quality."""
    limit: int
    """The most steps of a run."""
    share: float | None = 1.0
    """About the part of `RUN_SECONDS` that a run takes; None with data of the user."""


SHORT = Pace(3, train.Pace(9, 10, (), case_seconds=25.0), 10, 400)
FILES = replace(SHORT, block=100, limit=50_000)
"""For data of the user, which takes more steps."""
QUICK = Pace(1, train.Pace(2, 2, ()), 3, 6, share=0.1)


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
    def model(self) -> Model:
        """What is trained."""
        return TASKS[self.task]

    @property
    def layout(self) -> Layout:
        """The processes that it needs."""
        return Layout(self.servers, self.workers)


@dataclass(frozen=True)
class ConvergencePlan:
    """A whole run, with what has been measured of it so far."""

    jobs: tuple[Job, ...]
    ways: tuple[Way, ...]
    pace: Pace
    settings: dict[str, Any] = field(default_factory=dict)
    """What its file names."""
    runs: list[Row] = field(default_factory=list)
    """The runs of the jobs, as `run.race` returns them."""
    steps: list[Row] = field(default_factory=list)
    """The rows of the emulated steps, as `farwrite_experiments.train.rows` makes them."""
    made: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """Removes the generated data."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why jobs have failed, by their tasks."""

    def runs_of(self, job: Job) -> list[Row]:
        """Return the runs of a job."""
        return [run for run in self.runs if run["task"] == job.task]

    def steps_of(self, job: Job) -> list[Row]:
        """Return the rows of a job's emulated steps; empty if they are not measured."""
        return [row for row in self.steps if row["model"] == job.task]

    def expected_seconds(self) -> float | None:
        """Estimate the time on two processors of what is left; None with data of the user."""
        pace = self.pace
        if pace.share is None:
            return None
        seconds = 0.0
        for job in self.jobs:
            runs = max(pace.runs - len(self.runs_of(job)), 0) * len(self.ways)
            seconds += START_SECONDS + runs * pace.share * RUN_SECONDS[job.task]
            seconds += 0.0 if self.steps_of(job) else max(pace.emulated.case_seconds, 3.0)
        return seconds


@dataclass(frozen=True)
class Block:
    """The first worker's answer to a request for steps."""

    seconds: list[float]
    """Of each step."""
    losses: list[float]
    """The mean loss of all workers, of each step."""
    longest: list[list[int]]
    """The lengths of the first worker's sequences, of each step."""
