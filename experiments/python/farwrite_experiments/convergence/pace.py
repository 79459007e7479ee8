"""How long a run trains, and about how long it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from farwrite_experiments.convergence.tasks import Task
from farwrite_experiments.train import pace as train

if TYPE_CHECKING:
    from farwrite_experiments.convergence.plan import ConvergencePlan, Job

FILES_LIMIT, FILES_BLOCK = 50_000, 100
"""The most steps with data of the user, and steps between two measures of the quality."""
START_SECONDS = 12.0
"""About how long it takes to start the processes of a job, twice, and to build its graphs."""
RUN_SECONDS = {"images": 18.0, "seq2seq": 30.0, "sentences": 18.0}
"""About how long a run takes one way, by task, on two processors."""


@dataclass(frozen=True)
class Pace:
    """How long a task trains, and how its emulated steps are measured."""

    runs: int
    emulated: train.Pace
    block: int | None = None
    """Steps between two measures of the quality; None leaves them to the task."""
    limit: int | None = None
    """The most steps of a run; None leaves them to the task."""

    def block_of(self, task: Task) -> int:
        """Return the steps between two measures of the quality."""
        return self.block or task.block

    def limit_of(self, task: Task) -> int:
        """Return the most steps of a run."""
        return self.limit or task.limit

    def of_runs(self, runs: int) -> Pace:
        """Return the same with another number of runs."""
        return replace(self, runs=runs)


SHORT = Pace(3, train.Pace(9, 10, (), case_seconds=25.0))
QUICK = Pace(1, train.Pace(2, 2, ()), block=3, limit=6)


def with_files(pace: Pace) -> Pace:
    """Return the pace for data of the user, which takes more steps."""
    return replace(pace, block=FILES_BLOCK, limit=FILES_LIMIT)


def expected_seconds(plan: ConvergencePlan, job: Job, finished: int, *, emulated: bool) -> float:
    """Estimate the time of a job on two processors, with generated data.

    Parameters
    ----------
    finished : int
        The runs that an interrupted run has finished.
    emulated : bool
        Whether the emulated steps must still be measured.
    """
    pace = plan.pace
    share = 1.0 if pace.limit is None else 0.1
    runs = max(pace.runs - finished, 0) * len(plan.ways) * share * RUN_SECONDS[job.task]
    return START_SECONDS + runs + emulated * max(pace.emulated.case_seconds, 3.0)
