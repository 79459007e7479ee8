"""The subcommand ``farwrite bench scaling``: its options, its table and its file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count, counts
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table
from farwrite_experiments.capacity.calibrate import QUICK_ROUNDS, ROUNDS
from farwrite_experiments.capacity.costs import Costs, read_costs
from farwrite_experiments.cluster.link import parse_link
from farwrite_experiments.cluster.machines import OWN, shaped_by, why_no_namespaces
from farwrite_experiments.library import MODULE as LIBRARY
from farwrite_experiments.networks.network import SIX
from farwrite_experiments.scaling.plan import (
    BATCH,
    LINKS,
    MACHINES,
    MODELS,
    QUICK,
    QUICK_MACHINES,
    QUICK_MODELS,
    SHORT,
    TRANSPORTS,
    ScalingPlan,
    expected_seconds,
    points,
    ways,
)
from farwrite_experiments.scaling.rows import BUSY, Row
from farwrite_experiments.scaling.run import calibration
from farwrite_experiments.scaling.run import run as measure
from farwrite_experiments.scaling.tables import HEADERS, cells, sentences
from farwrite_experiments.train.pace import Pace

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

NOTES = (
    "A machine is a parameter server and a worker in a network namespace, with an address of its"
    " own. A link shapes both directions: by tc's tbf at the machine's end of its cable and"
    " at the switch's. Farwrite uses tcp, because shared memory would go around the links.",
    "x local: throughput over a purely local run, one worker's steps in one process. x grpc:"
    " throughput over stock gRPC's, in the same rounds if both clusters fit into memory together.",
    f"cores busy: of this machine, which all machines share. From {100 * BUSY:.0f} % on the"
    " processors limit the step, and the row shows no network, so it does not count.",
    "predicted ms: by the capacity model of farwrite plan, from the costs of bytes, messages and"
    " steps between one server and one worker; it has seen no network of the table.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``scaling``."""
    parser = kinds.add_parser(
        "scaling",
        help="train the papers' networks on more and more machines",
        description="Train the papers' networks on more and more machines. As root, each machine is"
        " a network namespace with a shaped link; otherwise all are processes on the loopback. The"
        " computation is emulated, so that two cores can carry eight machines. Each step is also"
        " predicted by the model of farwrite plan. Needs TensorFlow.",
        epilog="Example: farwrite bench scaling --quick",
    )
    add_choices(parser, "--model", [network.key for network in SIX], default=", ".join(MODELS))
    add_choices(parser, "--transport", TRANSPORTS, default="grpc, farwrite")
    parser.add_argument(
        "--machines",
        type=counts,
        metavar="N,N...",
        help="machines, each with a server and a worker (default: 1,2,4; --quick: 1,2)",
    )
    parser.add_argument(
        "--link",
        type=parse_link,
        action="append",
        metavar="RATE",
        help="bits per second of a machine's link, such as 10G or 500M; may be given several times"
        " (default: 10G)",
    )
    parser.add_argument(
        "--batch", type=count, default=BATCH, metavar="N", help=f"samples (default: {BATCH})"
    )
    parser.add_argument(
        "--loopback",
        action="store_true",
        help="use the loopback, also as root; nothing is shaped",
    )
    parser.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="predict from the costs in this file, as farwrite plan keeps them (default: measure"
        " them first)",
    )
    add_number(parser, "--rounds", SHORT.rounds, quick=QUICK.rounds, kind=count)
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench scaling", "tensorflow")
    record = Record("scaling", quick=arguments.quick)
    plan = _plan(arguments)
    reason = "--loopback was given" if arguments.loopback else why_no_namespaces()
    if reason is not None:
        record.notes.append(f"no links are shaped, and all machines use the loopback: {reason}")
    shaped = reason is None
    links = {point.link for point in plan.points} if shaped else set()
    own = sorted(str(link) for link in links if shaped_by(link) == OWN)
    if own:
        record.notes.append(
            f"the kernel cannot shape {', '.join(own)} (it has no tbf, or no netem for a delay), so"
            " a process of the benchmark passes the packets on; it takes time of the processors"
        )
    known = None if arguments.calibration is None else read_costs(arguments.calibration)
    record.announce(expected_seconds(plan))
    rows: list[Row] = []
    with measuring(*dict.fromkeys([*programs([way.transport for way in plan.ways]), LIBRARY])) as (
        bar,
        logs,
    ):
        costs = known or _calibrate(plan, arguments.quick, shaped, bar, logs)
        settings = {
            "machines": sorted({point.machines for point in plan.points}),
            "links": sorted({str(point.link) for point in plan.points}) if shaped else [],
            "batch": arguments.batch,
            "rounds": plan.pace.rounds,
            "malloc": MALLOC,
            "costs": costs.facts(),
        }

        def keep(more: list[Row]) -> None:
            rows.extend(more)
            write_json(arguments.json, record.facts(NOTES, settings=settings, rows=rows))

        measure(plan, costs, shaped, bar, keep, logs)
    print(f"{record.conditions()}; {plan.pace.rounds} rounds of one step\n")
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    for line in (*sentences(rows), *NOTES):
        print(f"\n{line}")
    return 0


def _plan(arguments: argparse.Namespace) -> ScalingPlan:
    quick = arguments.quick
    chosen = arguments.transport or [key for key in TRANSPORTS if key != "staged"]
    pace = QUICK if quick else SHORT
    return ScalingPlan(
        points(
            arguments.model or (QUICK_MODELS if quick else MODELS),
            arguments.batch,
            arguments.machines or (QUICK_MACHINES if quick else MACHINES),
            arguments.link or LINKS,
        ),
        ways(chosen),
        Pace(arguments.rounds or pace.rounds, pace.steps, pace.batches),
    )


def _calibrate(plan: ScalingPlan, quick: bool, shaped: bool, bar: ProgressBar, logs: Path) -> Costs:
    return calibration(plan.ways, QUICK_ROUNDS if quick else ROUNDS, shaped, bar, logs)
