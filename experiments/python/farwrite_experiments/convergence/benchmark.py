"""``farwrite bench convergence``: three tasks, each trained to a stated quality."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from farwrite.errors import InvalidArgument
from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import FARWRITE, GRPC, require
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table, ratio, spread
from farwrite_bench.harness.option import Option, chosen
from farwrite_bench.options import count, positive
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, rows_of, without_failures
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.convergence.charts import figures, goal
from farwrite_experiments.convergence.data.choose import IMAGES, choose
from farwrite_experiments.convergence.plan import FILES, QUICK, SHORT, ConvergencePlan, Job
from farwrite_experiments.convergence.rows import failed_rows, make_rows
from farwrite_experiments.convergence.run import run
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.library import MODULE
from farwrite_experiments.train.benchmark import MALLOC_WORDS
from farwrite_experiments.train.charts import NAMES
from farwrite_experiments.train.plan import EMULATED, FABRICS, TRANSPORTS, ways
from farwrite_experiments.train.resume import earlier

NOTES = (
    "All ways have the same seeds and the same order of batches. After each block of steps their"
    " losses and variables were the same bit for bit, or the command would have failed. The quality"
    " is measured with samples that no worker trains with, and its time does not count.",
    "real: wall time of the steps as they ran on this processor, all ways in turns, block by block."
    " seconds: mean of the runs to the stated quality. of grpc: median over the runs of the time"
    " over stock gRPC's for the same steps. Each run has other first values and another order.",
    "emulated: GPU-class computation. Steps to the quality, as the real runs took them, times the"
    " step of bench train with the same variables, transfers and updates, whose layers take the"
    " accelerator's time. From the main paper's table: VGG-16 gives the time of a multiplication"
    " (30.92 ms for a sample), and LSTM that of a recurrent step (33.33 ms for 80), forward and"
    " backward, whatever the batch. of grpc: median of the steps' ratio, and its interval.",
    "The real steps gather rows of the tables on the servers: seq2seq by bounded edges, sentences"
    " by dynamic ones. The emulated steps send as many rows as a mean batch has, by static edges,"
    " and update them as a matrix. Numbers of words, some KB a step, cross only in the real ones.",
    f"{MALLOC_WORDS}. Graph optimizers are off.",
)
CARRYING = [key for key in TRANSPORTS if key != LOCAL.key]
"""The transports that carry tensors between tasks."""


def plan(arguments: argparse.Namespace, record: Record) -> ConvergencePlan:
    """Make the plan from the options, and the data."""
    tasks = [key for key in TASKS if key in arguments.task]
    if arguments.target is not None and len(tasks) != 1:
        raise InvalidArgument(
            "bench convergence: --target is the quality of one task; add --task with its name"
        )
    files = arguments.data is not None
    if IMAGES in tasks and not files:
        require("farwrite bench convergence", "sklearn")
    pace = QUICK if arguments.quick else FILES if files else SHORT
    share = None if files else pace.share
    pace = replace(pace, runs=arguments.runs or pace.runs, share=share)
    found = [way for way in ways(arguments.transport, arguments.fabric) if not way.is_local]
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(tempfile.TemporaryDirectory(prefix="farwrite-data-"))
        jobs = tuple(_job(task, arguments, Path(made)) for task in tasks)
        settings = {
            "tasks": tasks,
            "targets": [job.target for job in jobs],
            "data": str(arguments.data.resolve()) if files else None,
            "ways": [way.key for way in found],
            "runs": pace.runs,
            "quick": arguments.quick,
            "servers": arguments.servers,
            "workers": arguments.workers,
            "malloc": MALLOC,
        }
        known = interrupted(arguments.json, settings, record.machine)
        record.notes += [n for n in known.get("notes", ()) if n not in (*record.notes, *NOTES)]
        if files:
            print(
                f"farwrite bench: each run ends at its quality, or after {pace.limit:,} steps; with"
                " --json, the same command continues an interrupted run",
                file=sys.stderr,
            )
        measured = known.get("training", []), known.get("emulated_steps", [])
        return ConvergencePlan(jobs, tuple(found), pace, settings, *measured, stack.pop_all())


def _job(task: str, arguments: argparse.Namespace, made: Path) -> Job:
    data = choose(task, arguments.data, made)
    if data.records < arguments.workers:
        raise InvalidArgument(
            f"bench convergence: {data.train[0]} has fewer records than there are workers"
            f" ({data.records} and {arguments.workers}); give more data, or fewer --workers"
        )
    model = TASKS[task]
    target = model.target if arguments.data is None else model.targets[data.format]
    return Job(task, data, arguments.target or target, arguments.servers, arguments.workers)


def interrupted(
    path: Path | None, settings: Mapping[str, Any], machine: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what an interrupted run with the same settings on the same machine has measured.

    Nothing if there is no file, or the file is of a run that has finished and of which nothing
    failed: a new run replaces it.

    Raises
    ------
    FailedPrecondition
        If the file is of another interrupted run, or cannot be read.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if path is not None:
            facts = json.loads(path.read_text(encoding="utf-8"))
            rows = facts.get("rows", [])
            if facts["finished"] and rows == without_failures(rows):
                return {}
    return earlier("convergence", path, settings, machine, ("notes", "training", "emulated_steps"))


def measure(plan: ConvergencePlan, progress: Progress, logs: Path) -> Iterator[Facts]:
    """Train each task, and yield what has been measured so far."""

    def so_far() -> Facts:
        rows = []
        for job in plan.jobs:
            runs = plan.runs_of(job)
            rows += make_rows(job, plan.ways, runs, plan.steps_of(job))
            if job.task in plan.failed:
                error = plan.failed[job.task]
                rows += failed_rows(job, plan.ways, runs, plan.pace.runs, error)
        return {"rows": rows, "training": plan.runs, "emulated_steps": plan.steps}

    with plan.made:
        for _ in run(plan, progress, logs):
            yield so_far()
    yield so_far()


def sentences(facts: Facts) -> Iterator[str]:
    """Say what each task read, and how much less time Farwrite needs than stock gRPC."""
    rows = facts["rows"]
    for task in dict.fromkeys(row["task"] for row in rows):
        of_task = [row for row in rows if row["task"] == task]
        data = of_task[0]["data"]
        synthetic = ", synthetic" if data["synthetic"] and "synthetic" not in data["name"] else ""
        yield f"{TASKS[task].name}: data: {data['name']}{synthetic}."
        for row in of_task:
            if row["of_grpc"] is not None and not row["transport"].startswith("rpc"):
                kind = "emulated GPU-class" if row["compute"] == EMULATED else "real"
                yield (
                    f"{TASKS[task].name}, {kind} computation, {row['transport']} over"
                    f" {row['fabric']}: {row['of_grpc']['median']:.2f} of stock gRPC's time to"
                    f" {goal(row)}."
                )


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite with stock gRPC's time to the same quality."""
    return [
        Gain(
            f"convergence: {TASKS[row['task']].name.capitalize()}, {row['compute']},"
            f" {row['transport']} {row['fabric']}",
            1 / row["of_grpc"]["median"],
            NAMES[GRPC.key],
            "computation on this processor" if row["compute"] != EMULATED else "",
        )
        for row in rows_of(facts)
        if row["transport"] in ("farwrite", "staged") and row["of_grpc"] is not None
    ]


def _mean(head: str, key: str, form: str) -> Column:
    """Make the column of the mean of the runs, which may not have been measured."""
    return Column(head, lambda row: row[key] and row[key]["mean"], form)


BENCHMARK = Benchmark(
    name="convergence",
    example="farwrite bench convergence --task images",
    description="Train three tasks to a stated quality with parameter servers and workers in"
    " processes of their own, which read their data from disk: image recognition, sequence to"
    " sequence, and sentence embedding. All transports take the same steps, bit for bit, so that"
    " only time differs. Needs TensorFlow; without --data, scikit-learn for the images.",
    title="Convergence: three trainings to a stated quality",
    needs=("tensorflow",),
    libraries=lambda plan: [*programs([way.transport for way in plan.ways]), MODULE],
    options=(
        chosen("--task", TASKS),
        Option(
            "--data",
            "folder of your data: cifar-10-batches-bin or mnist, translation, sentences",
            kind=Path,
            metavar="DIR",
            shown="scikit-learn's digits, and generated text",
        ),
        replace(
            chosen("--transport", CARRYING, f"{GRPC.key} and {FARWRITE.key}"),
            default=(GRPC.key, FARWRITE.key),
        ),
        replace(chosen("--fabric", FABRICS, "shm"), default=FABRICS[:1]),
        Option(
            "--runs",
            "runs, each with other seeds",
            kind=count,
            shown=f"{SHORT.runs}; --quick: {QUICK.runs}",
        ),
        Option(
            "--target",
            "the quality to reach, with one --task",
            kind=positive,
            metavar="QUALITY",
            shown="one for each task and kind of data",
        ),
        Option("--workers", "workers", 2, kind=count),
        Option("--servers", "parameter servers", 1, kind=count),
    ),
    plan=plan,
    measure=measure,
    seconds=ConvergencePlan.expected_seconds,
    summary=lambda plan: f"{plan.pace.runs} runs of each task",
    settings=lambda plan: plan.settings,
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("task", "task"),
                Column("computation", "compute"),
                Column("transport", "transport"),
                Column("fabric", "fabric"),
                Column("to", goal),
                Column("reached", lambda row: f"{row['reached']} of {len(row['runs'])}"),
                _mean("steps", "steps_to_quality", ".0f"),
                Column("step ms", "step_ms", ".1f"),
                _mean("seconds", "seconds_to_quality", ".2f"),
                spread("spread", "seconds_to_quality", ".2f"),
                ratio("of grpc", "of_grpc", ".2f"),
                spread("spread", "of_grpc", ".2f"),
                Column("copies", "copies_per_step", ".3g"),
                Column("requests", "requests_per_step", ".3g"),
                Column("cpu s", "cpu_s_per_step", ".3g"),
            ),
            named=4,
        ),
    ),
    sentences=sentences,
    charts=(figures,),
    gains=gains,
    gain_of="faster to the stated quality than stock gRPC",
)
