"""``farwrite plan``: predicts a training step on more workers, and what limits it."""

from __future__ import annotations

import argparse
import contextlib
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.cli_parser import writable_file
from farwrite.errors import InvalidArgument
from farwrite_bench.benchmarks import benchmarks
from farwrite_bench.cache import cache_folder
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, require
from farwrite_bench.harness import command
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.harness.option import Option, chosen
from farwrite_bench.options import count, counts, positive
from farwrite_bench.record import Record
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Facts, Row
from farwrite_experiments.capacity.calibrate import QUICK_ROUNDS, ROUNDS, calibrate
from farwrite_experiments.capacity.costs import Costs, read_costs, write_costs
from farwrite_experiments.capacity.job import Site
from farwrite_experiments.capacity.plan import (
    TRANSPORTS,
    WORKERS,
    Workload,
    answers,
    moves,
    of_edges,
    of_network,
)
from farwrite_experiments.capacity.published import rows as published_rows
from farwrite_experiments.cluster.link import Link, parse_link
from farwrite_experiments.library import MODULE
from farwrite_experiments.networks.network import NETWORKS, VGG16
from farwrite_experiments.train.plan import Way

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

LINK = Link(10e9)
WAYS = (Way(GRPC), Way(FARWRITE, "tcp"), Way(FARWRITE, "shm"))
SECONDS = 60.0
NOTES = (
    "A step pulls every variable, computes forward and backward layer by layer, pushes every"
    " gradient as soon as it is there, and applies it. Links, connections and processors are shared"
    " fairly by what needs them at the same time.",
    "bottleneck: what is used for the largest share of the step, and that share. exposed ms: the"
    " step less the same step where nothing moves.",
    "farwrite rdma: the costs of Farwrite's messages and steps on this machine, and no processor's"
    " time for bytes, which an adapter moves by itself. It was not measured here.",
)
COLOURS = {
    "grpc": "grpc",
    "farwrite tcp": "farwrite-tcp",
    "farwrite shm": "farwrite-shm",
    "farwrite rdma": "farwrite-verbs",
}
"""The keys of a chart's colours, by transport."""


def plan(arguments: Namespace, _: Record) -> Namespace:
    """Add to the options what they ask for, and the costs of this machine if a file has them."""
    arguments.workload = None if arguments.published else _workload(arguments)
    arguments.path = arguments.calibration or cache_folder() / "calibration.json"
    known = arguments.path.exists() and not arguments.calibrate
    if not known:
        require("farwrite plan --calibrate", "tensorflow")
        if _keeps(arguments):
            _check_writable(arguments.path)
    arguments.costs = read_costs(arguments.path) if known else None
    return arguments


def _check_writable(path: Path) -> None:
    # Before a minute of measuring, which would be lost.
    if path.parent == cache_folder():
        with contextlib.suppress(OSError):  # which the next line reports
            path.parent.mkdir(parents=True, exist_ok=True)
    try:
        writable_file(str(path))
    except argparse.ArgumentTypeError as error:
        raise InvalidArgument(f"plan: {error}; --calibration FILE names another file") from None


def _keeps(plan: Namespace) -> bool:
    """Whether measured costs go to the file: a short calibration would pass for a good one."""
    return not plan.quick or plan.calibration is not None


def measure(plan: Namespace, progress: Progress, logs: Path) -> Facts:
    """Measure the costs where none are known, and predict."""
    costs: Costs | None = plan.costs
    if costs is None:
        rounds = QUICK_ROUNDS if plan.quick else ROUNDS
        costs = calibrate(WAYS, rounds, None, logs, progress)
        if _keeps(plan):
            write_costs(plan.path, costs)
    settings = {"settings": {"costs": costs.facts()}}
    if plan.workload is None:
        return {**settings, "published": list(published_rows(costs))}
    accelerated = plan.compute_on == "accelerator"
    rows = answers(
        plan.workload,
        Site(plan.link, plan.cores or costs.cores, accelerated=accelerated),
        costs,
        workers=plan.workers,
        transports=plan.transport,
        servers=plan.servers,
        sync=not plan.asynchronous,
        straggler=plan.straggler,
    )
    return {**settings, "rows": rows}


def _summary(plan: Namespace) -> str:
    if plan.costs is not None:
        return f"the costs of {plan.path}"
    return f"the costs of this machine are in {plan.path}" if _keeps(plan) else "measured costs"


def _workload(arguments: Namespace) -> Workload:
    if arguments.edges is not None:
        return of_edges(arguments.edges, arguments.batch, arguments.compute_ms)
    return of_network(arguments.model, arguments.batch, arguments.compute_ms)


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor; use 1 or more")
    return factor


def more_options(parser: argparse.ArgumentParser) -> None:
    """Add what is predicted: one of three."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--model",
        choices=sorted(NETWORKS),
        default=VGG16.key,
        help=f"a network of the papers (default: {VGG16.key})",
    )
    what.add_argument(
        "--edges",
        type=Path,
        metavar="FILE",
        help="the edges of another graph, as farwrite tensorflow analyze --json writes them",
    )
    what.add_argument(
        "--published",
        action="store_true",
        help="predict what the papers measured on their clusters, beside their figures",
    )


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``plan``."""
    command.add_parser(BENCHMARK, benchmarks()["plan"].question, subparsers)


def figures(facts: Facts) -> list[str]:
    """Draw the efficiency by the number of workers."""
    rows: list[Row] = facts.get("rows", [])
    workers = sorted({row["workers"] for row in rows})
    if len(workers) < 2:
        return []
    title = (
        f"{rows[0]['workload']}, {rows[0]['link']}: the share of a step that is no communication"
    )
    series = [
        Series(colour, key, [(row["workers"], row["efficiency"]) for row in mine])
        for key, colour in COLOURS.items()
        if (mine := [row for row in rows if row["transport"] == key])
    ]
    return [lines(Look(title, "workers", "share", log_x=True, ticks_x=workers), series)]


def _published(row: Row) -> str:
    return f"{row['published']:g}{row['unit']}" if "unit" in row else str(row["published"])


def _predicted(row: Row) -> str | None:
    if "missing" in row:
        return None
    (low, high), unit = row["predicted"], row["unit"]
    return f"{low:.3g}{unit}" if low == high else f"{low:.3g} to {high:.3g}{unit}"


def _conditions(row: Row) -> str:
    if "missing" in row:
        return f"not known: {row['missing']}"
    return f"{row['cluster']}; {row['assumption']}"


def _percent(value: float, sign: str = "") -> str:
    return f"{100 * value:{sign}.0f} %"


BENCHMARK = Benchmark(
    name="plan",
    example="farwrite plan --model vgg16 --workers 8",
    description="Predict how long a training step takes on one to thousands of workers, how much"
    " of that is communication, and what limits it, from costs that are measured once on this"
    " machine (a minute; needs TensorFlow).",
    title="The capacity model: what limits a training job",
    libraries=lambda plan: () if plan.costs else (PLUGIN, MODULE),
    more_options=more_options,
    options=(
        Option(
            "--compute-ms",
            "milliseconds of a worker's computation in a step",
            kind=positive,
            metavar="MS",
            shown="the batch times the paper's time for a sample",
        ),
        Option("--batch", "samples of a worker", 32, kind=count),
        Option(
            "--workers",
            "workers",
            WORKERS,
            kind=counts,
            metavar="N,N...",
            shown="powers of two up to 1024",
        ),
        Option("--servers", "parameter servers", kind=count, shown="as many as workers"),
        Option(
            "--link",
            "a machine's link: bits per second, and a delay, such as 25G or 10G/50us",
            LINK,
            kind=parse_link,
            metavar="RATE",
            shown="10G",
        ),
        Option("--cores", "processors of a machine", kind=count, shown="this one's"),
        Option(
            "--compute-on",
            "where layers compute; a processor also reads what arrives and writes gradients",
            "accelerator",
            choices=("accelerator", "processor"),
        ),
        chosen("--transport", TRANSPORTS),
        Option("--asynchronous", "let every worker step by itself"),
        Option(
            "--straggler",
            "how many times longer one worker computes",
            1.0,
            kind=_factor,
            metavar="TIMES",
            shown="1",
        ),
        Option(
            "--calibration",
            "the costs of a machine; measured if the file does not exist",
            kind=Path,
            metavar="FILE",
            shown="in the user's cache",
        ),
        Option("--calibrate", "measure the costs again"),
    ),
    plan=plan,
    measure=measure,
    seconds=lambda plan: None if plan.costs else SECONDS,
    summary=_summary,
    settings=lambda _: {},
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("transport", "transport"),
                Column("workers", "workers"),
                Column("servers", "servers"),
                Column("step ms", "step_ms", ".1f"),
                Column("exposed ms", "exposed_ms", ".1f"),
                Column("samples/s", "samples_s", ".1f"),
                Column("efficiency", "efficiency", _percent),
                Column("bottleneck", "bottleneck"),
                Column("used", "share", _percent),
            ),
            "Predicted steps",
            lambda facts: facts.get("rows", []),
        ),
        Table(
            (
                Column("what", "what"),
                Column("published", _published),
                Column("predicted", _predicted),
                Column(
                    "error",
                    lambda row: row.get("prediction_error"),
                    lambda error: _percent(error, "+"),
                ),
                Column("conditions", _conditions),
            ),
            "The papers' clusters",
            lambda facts: facts.get("published", []),
        ),
    ),
    sentences=lambda facts: moves(facts.get("rows", [])),
    charts=(figures,),
)
