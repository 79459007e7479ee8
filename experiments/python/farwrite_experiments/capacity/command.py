"""The command ``farwrite plan``: its options, its tables and its file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite_bench.cache import cache_folder
from farwrite_bench.cluster.plugin import measuring
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_shared, count, counts
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_experiments.capacity.calibrate import QUICK_ROUNDS, ROUNDS, calibrate
from farwrite_experiments.capacity.costs import Costs, read_costs, write_costs
from farwrite_experiments.capacity.job import Site
from farwrite_experiments.capacity.plan import (
    TRANSPORTS,
    WORKERS,
    Question,
    Workload,
    answers,
    moves,
    of_edges,
    of_network,
)
from farwrite_experiments.capacity.published import rows as published_rows
from farwrite_experiments.capacity.tables import (
    HEADERS,
    PUBLISHED_HEADERS,
    cells,
    published_cells,
)
from farwrite_experiments.cluster.link import Link, parse_link
from farwrite_experiments.library import MODULE as LIBRARY
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


def add_parser(subparsers: Subparsers) -> None:
    """Add the command ``plan``."""
    parser = subparsers.add_parser(
        "plan",
        help="predict a training step on more workers, and what limits it",
        description="Predict how long a training step takes on one to thousands of workers, how"
        " much of that is communication, and what limits it, from costs that are measured once on"
        " this machine (a minute; needs TensorFlow).",
        epilog="Example: farwrite plan --model vgg16 --workers 8",
    )
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
    parser.add_argument(
        "--compute-ms",
        type=float,
        metavar="MS",
        help="milliseconds of a worker's computation in a step (default: the batch times the"
        " paper's time for a sample)",
    )
    parser.add_argument(
        "--batch", type=count, default=32, metavar="N", help="samples of a worker (default: 32)"
    )
    parser.add_argument(
        "--workers",
        type=counts,
        default=WORKERS,
        metavar="N,N...",
        help="workers (default: powers of two up to 1024)",
    )
    parser.add_argument(
        "--servers", type=count, metavar="N", help="parameter servers (default: as many as workers)"
    )
    parser.add_argument(
        "--link",
        type=parse_link,
        default=LINK,
        metavar="RATE",
        help="a machine's link: bits per second, and a delay, such as 25G or 10G/50us (default:"
        " 10G)",
    )
    parser.add_argument(
        "--cores", type=count, metavar="N", help="processors of a machine (default: this one's)"
    )
    parser.add_argument(
        "--compute-on",
        choices=("accelerator", "processor"),
        default="accelerator",
        help="where layers compute; a processor also reads what arrives and writes gradients"
        " (default: accelerator)",
    )
    add_choices(parser, "--transport", TRANSPORTS)
    parser.add_argument(
        "--asynchronous", action="store_true", help="let every worker step by itself"
    )
    parser.add_argument(
        "--straggler",
        type=_factor,
        default=1.0,
        metavar="TIMES",
        help="how many times longer one worker computes (default: 1)",
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="the costs of a machine; measured if the file does not exist (default: in the user's"
        " cache)",
    )
    parser.add_argument("--calibrate", action="store_true", help="measure the costs again")
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Predict, print the table and write the JSON file."""
    record = Record("plan", quick=arguments.quick)
    workload = None if arguments.published else _workload(arguments)
    costs = _costs(arguments, record)
    table = markdown_table if arguments.markdown else text_table
    found: dict[str, Any]
    if workload is None:
        found = {"published": list(published_rows(costs))}
        shown = table(PUBLISHED_HEADERS, list(published_cells(found["published"])))
        sentences: list[str] = []
    else:
        found = {"rows": answers(_question(arguments, workload, costs), costs)}
        shown = table(HEADERS, list(cells(found["rows"])))
        sentences = moves(found["rows"])
    print("\n".join(shown))
    for line in (*sentences, *NOTES):
        print(f"\n{line}")
    write_json(arguments.json, record.facts(NOTES, settings={"costs": costs.facts()}, **found))
    return 0


def _workload(arguments: argparse.Namespace) -> Workload:
    if arguments.edges is not None:
        return of_edges(arguments.edges, arguments.batch, arguments.compute_ms)
    return of_network(arguments.model, arguments.batch, arguments.compute_ms)


def _question(arguments: argparse.Namespace, workload: Workload, costs: Costs) -> Question:
    return Question(
        workload,
        arguments.workers,
        arguments.servers,
        Site(
            arguments.link,
            arguments.cores or costs.cores,
            accelerated=arguments.compute_on == "accelerator",
        ),
        tuple(arguments.transport or TRANSPORTS),
        not arguments.asynchronous,
        arguments.straggler,
    )


def _costs(arguments: argparse.Namespace, record: Record) -> Costs:
    """Read the costs of this machine, or measure them. A quick run keeps them only in FILE."""
    path: Path = arguments.calibration or cache_folder() / "calibration.json"
    if path.exists() and not arguments.calibrate:
        return read_costs(path)
    require("farwrite plan --calibrate", "tensorflow")
    record.announce(SECONDS)
    rounds = QUICK_ROUNDS if arguments.quick else ROUNDS
    with measuring(PLUGIN, LIBRARY) as (bar, logs):
        costs = calibrate(WAYS, rounds, None, logs, bar)
    # A short calibration would pass for a good one in every later prediction.
    if not arguments.quick or arguments.calibration is not None:
        write_costs(path, costs)
        print(f"plan: the costs of this machine are in {path}\n")
    return costs


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor; use 1 or more")
    return factor
