"""The subcommand ``farwrite bench convergence``: its options, its table and its file."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.errors import InvalidArgument
from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import FARWRITE, GRPC, require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_shared, count
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_bench.tensor.plan import LOCAL
from farwrite_experiments.convergence.data.choose import IMAGES, choose
from farwrite_experiments.convergence.pace import QUICK, SHORT, Pace, expected_seconds, with_files
from farwrite_experiments.convergence.plan import ConvergencePlan, Job
from farwrite_experiments.convergence.resume import interrupted
from farwrite_experiments.convergence.rows import Row, make_rows
from farwrite_experiments.convergence.run import Results
from farwrite_experiments.convergence.run import run as measure
from farwrite_experiments.convergence.tables import HEADERS, cells, sentences
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.library import MODULE as LIBRARY
from farwrite_experiments.train.plan import FABRICS, TRANSPORTS, Way, ways

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

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
    "malloc, for every way: "
    + ", ".join(f"{name}={value}" for name, value in MALLOC.items())
    + ". Graph optimizers are off.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``convergence``."""
    parser = kinds.add_parser(
        "convergence",
        help="measure the time to a stated quality in training",
        description="Train three tasks to a stated quality with parameter servers and workers in"
        " processes of their own, which read their data from disk: image recognition, sequence to"
        " sequence, and sentence embedding. All transports take the same steps, bit for bit, so"
        " that only time differs. Needs TensorFlow; without --data, scikit-learn for the images.",
        epilog="Example: farwrite bench convergence --task images",
    )
    add_choices(parser, "--task", TASKS)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of your data: cifar-10-batches-bin or mnist, translation, sentences (default:"
        " scikit-learn's digits, and generated text)",
    )
    add_choices(
        parser,
        "--transport",
        [key for key in TRANSPORTS if key != LOCAL.key],
        default=f"{GRPC.key} and {FARWRITE.key}",
    )
    add_choices(parser, "--fabric", FABRICS, default="shm")
    parser.add_argument(
        "--runs",
        type=count,
        metavar="N",
        help=f"runs, each with other seeds (default: {SHORT.runs}; --quick: {QUICK.runs})",
    )
    parser.add_argument(
        "--target",
        type=float,
        metavar="QUALITY",
        help="the quality to reach, with one --task (default: one for each task and kind of data)",
    )
    parser.add_argument(
        "--workers", type=count, default=2, metavar="N", help="workers (default: 2)"
    )
    parser.add_argument(
        "--servers", type=count, default=1, metavar="N", help="parameter servers (default: 1)"
    )
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train, measure, print the table and write the JSON file."""
    tasks: list[str] = [key for key in TASKS if key in (arguments.task or TASKS)]
    if arguments.target is not None and len(tasks) != 1:
        raise InvalidArgument(
            "bench convergence: --target is the quality of one task; add --task with its name"
        )
    digits = IMAGES in tasks and arguments.data is None
    require("farwrite bench convergence", "tensorflow", *["sklearn"] * digits)
    record = Record("convergence", quick=arguments.quick)
    chosen = _ways(arguments)
    pace = _pace(arguments)
    with tempfile.TemporaryDirectory(prefix="farwrite-data-") as made:
        jobs = tuple(_job(task, arguments, Path(made)) for task in tasks)
        plan = ConvergencePlan(jobs, chosen, pace)
        settings = _settings(arguments, plan)
        known = interrupted(arguments.json, settings, record.machine) or {}
        kept = [note for note in known.get("notes", ()) if note not in (*record.notes, *NOTES)]
        record.notes.extend(kept)
        finished = False

        def keep() -> None:
            facts = record.facts(
                NOTES,
                settings=settings,
                finished=finished,
                rows=_rows(plan, results),
                training=results.runs,
                emulated_steps=results.steps,
            )
            write_json(arguments.json, facts)

        results = Results(known.get("training", []), known.get("emulated_steps", []), keep)
        _announce(record, plan, results, files=arguments.data is not None)
        needed = programs([way.transport for way in chosen])
        with measuring(*dict.fromkeys([*needed, LIBRARY])) as (bar, logs):
            measure(plan, results, bar, logs)
        finished = True
        keep()
    _print(arguments, record, _rows(plan, results))
    return 0


def _ways(arguments: argparse.Namespace) -> tuple[Way, ...]:
    transports = arguments.transport or [GRPC.key, FARWRITE.key]
    fabrics = arguments.fabric or FABRICS[:1]
    return tuple(way for way in ways(transports, fabrics) if not way.is_local)


def _pace(arguments: argparse.Namespace) -> Pace:
    pace = QUICK if arguments.quick else SHORT if arguments.data is None else with_files(SHORT)
    return pace if arguments.runs is None else pace.of_runs(arguments.runs)


def _job(task: str, arguments: argparse.Namespace, made: Path) -> Job:
    data = choose(task, arguments.data, made)
    if data.records < arguments.workers:
        raise InvalidArgument(
            f"bench convergence: {data.train[0]} has fewer records than there are workers"
            f" ({data.records} and {arguments.workers}); give more data, or fewer --workers"
        )
    target = TASKS[task].target_of(data, named=arguments.data is not None)
    if arguments.target is not None:
        target = arguments.target
    return Job(task, data, target, arguments.servers, arguments.workers)


def _settings(arguments: argparse.Namespace, plan: ConvergencePlan) -> dict[str, Any]:
    return {
        "tasks": [job.task for job in plan.jobs],
        "targets": [job.target for job in plan.jobs],
        "data": None if arguments.data is None else str(arguments.data.resolve()),
        "ways": [way.key for way in plan.ways],
        "runs": plan.pace.runs,
        "quick": arguments.quick,
        "servers": arguments.servers,
        "workers": arguments.workers,
        "malloc": MALLOC,
    }


def _rows(plan: ConvergencePlan, results: Results) -> list[Row]:
    return [
        row
        for job in plan.jobs
        for row in make_rows(job, plan.ways, results.of(job), results.steps_of(job))
    ]


def _announce(record: Record, plan: ConvergencePlan, results: Results, *, files: bool) -> None:
    if files:
        record.announce()
        steps = max(plan.pace.limit_of(TASKS[job.task]) for job in plan.jobs)
        print(
            f"bench: each run ends at its quality, or after {steps:,} steps; with --json, the same"
            " command continues an interrupted run",
            file=sys.stderr,
        )
        return
    left = sum(
        expected_seconds(plan, job, len(results.of(job)), emulated=not results.steps_of(job))
        for job in plan.jobs
    )
    record.announce(left)


def _print(arguments: argparse.Namespace, record: Record, rows: list[Row]) -> None:
    print(f"{record.conditions()}; {len(rows[0]['runs'])} runs of each task\n")
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    for line in (*sentences(rows), *NOTES):
        print(f"\n{line}")
