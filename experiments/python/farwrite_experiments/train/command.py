"""The subcommand ``farwrite bench train``: its options, its table and its file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from farwrite.info import memory_available
from farwrite_bench.cluster.plugin import measuring, programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_number, add_shared, count, counts
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_experiments.library import MODULE as LIBRARY
from farwrite_experiments.networks.network import NETWORKS
from farwrite_experiments.train.cases import cases
from farwrite_experiments.train.groups import expected_seconds, groups
from farwrite_experiments.train.pace import FULL, QUICK, SHORT, Pace
from farwrite_experiments.train.plan import (
    EMULATED,
    FABRICS,
    MODES,
    REAL,
    TRANSPORTS,
    TrainPlan,
    ways,
)
from farwrite_experiments.train.resume import Earlier, earlier, remaining, repeats
from farwrite_experiments.train.rows import Row
from farwrite_experiments.train.run import run as measure
from farwrite_experiments.train.tables import HEADERS, cells, sentences

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

NOTES = (
    "comm ms: the step less the step of the same graph in one process (local), which has the same"
    " computation and the same updates: the communication that nothing hides. Each way is compared"
    " with local in the same round. The interval has the median in 95 of 100 cases (sign test); of"
    " fewer than six rounds it is their range, which is less certain.",
    "less: how many times less communication than stock gRPC. After 'at least' it is the lowest of"
    " stock's interval over the highest of this way's, or over half of its width, because this"
    " way's interval reaches 0.",
    "x: throughput over stock gRPC's in the same rounds. copies, registrations, requests: of a"
    " step, in all processes; stock TensorFlow does not count them. Of workers that do not wait for"
    " each other, a step is the mean of the slowest one's steps.",
    "emulated computation: each layer takes its share of the paper's time for a sample and holds no"
    " thread meanwhile. It reads every variable that arrived and writes every gradient anew."
    " Variables, transfers and updates are real.",
    "rpc-over-fabric: RecvTensor by request and reply, serialized by TensorFlow's own encoding,"
    " through private registered buffers of the same fabric, and copied out again. staged: Farwrite"
    " with one copy at the sender. It and farwrite carry control calls; gRPC carries those of"
    " grpc and rpc-over-fabric.",
    "malloc, for every way: "
    + ", ".join(f"{name}={value}" for name, value in MALLOC.items())
    + ". gRPC: TensorFlow's defaults. Graph optimizers are off, and a process has one thread per"
    " core; the process of local has as many threads as the processes of another way together.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``train``."""
    parser = kinds.add_parser(
        "train",
        help="train the papers' networks in TensorFlow",
        description="Train the papers' networks with parameter servers and workers in processes of"
        " their own, with synthetic data. All transports take turns with the same graph in one"
        " process, so that the time of communication can be told from computation. Needs"
        " TensorFlow.",
        epilog="Example: farwrite bench train --model vgg16 --workers 2",
    )
    add_choices(parser, "--model", NETWORKS, default="the six of the paper")
    add_choices(parser, "--transport", TRANSPORTS)
    add_choices(parser, "--fabric", FABRICS, default="shm, and tcp for farwrite")
    parser.add_argument(
        "--compute",
        choices=(EMULATED, REAL),
        help=f"whether layers compute, or take the paper's time (default: {EMULATED};"
        f" mnist_mlp: {REAL})",
    )
    parser.add_argument(
        "--batch",
        type=counts,
        metavar="N,N...",
        help="samples of a worker's step (default: 8; mnist_mlp: 100; --full: 1 to 128)",
    )
    parser.add_argument(
        "--workers", type=counts, default=(2,), metavar="N,N...", help="workers (default: 2)"
    )
    parser.add_argument(
        "--servers", type=count, default=1, metavar="N", help="parameter servers (default: 1)"
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        default=MODES[0],
        help="data: parameter servers; model: two workers have half of the model each; mirrored:"
        " MultiWorkerMirroredStrategy (default: data)",
    )
    parser.add_argument(
        "--asynchronous",
        action="store_true",
        help="let every worker step by itself (mnist_mlp always does)",
    )
    add_number(parser, "--rounds", SHORT.rounds, quick=QUICK.rounds, kind=count)
    add_number(parser, "--steps", SHORT.steps, quick=QUICK.steps, kind=count)
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--full",
        action="store_true",
        help=f"the paper's method: {FULL.rounds} rounds of {FULL.steps} steps, batches 1 to 128;"
        " hours. With --json, a later run continues an interrupted one",
    )
    add_shared(length, "--quick")
    add_shared(parser, "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables and write the JSON file."""
    require("farwrite bench train", "tensorflow")
    record = Record("train", quick=arguments.quick)
    pace = _pace(arguments)
    wanted = cases(arguments, pace)
    chosen = ways(arguments.transport or list(TRANSPORTS), arguments.fabric)
    made = groups(wanted, chosen, memory_available())
    plan = TrainPlan(made, pace)
    settings = {
        "rounds": pace.rounds,
        "steps": pace.steps,
        "compute": sorted({case.compute for case in wanted}),
        "batches": sorted({case.batch for case in wanted}),
        "servers": arguments.servers,
        "workers": list(arguments.workers),
        "full": arguments.full,
        "malloc": MALLOC,
    }
    known = Earlier()
    if arguments.full:
        known = earlier(arguments.json, settings, record.machine)
        record.notes.extend(note for note in known.notes if note not in (*record.notes, *NOTES))
    rows: list[Row] = known.rows
    plan = remaining(plan, rows)

    def keep(more: list[Row]) -> None:
        rows.extend([{**row, "repeated": repeats(row, rows)} for row in more])
        write_json(arguments.json, record.facts(NOTES, settings=settings, rows=rows))

    record.announce(expected_seconds(plan))
    needed = programs([way.transport for way in chosen])
    with measuring(*dict.fromkeys([*needed, LIBRARY])) as (bar, logs):
        measure(plan, bar, keep, logs)
    print(f"{record.conditions()}; at least {pace.rounds} rounds of {pace.steps} steps\n")
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    for line in (*sentences(rows), *NOTES):
        print(f"\n{line}")
    return 0


def _pace(arguments: argparse.Namespace) -> Pace:
    pace = FULL if arguments.full else QUICK if arguments.quick else SHORT
    return Pace(
        arguments.rounds or pace.rounds,
        arguments.steps or pace.steps,
        pace.batches,
        0.0 if arguments.rounds else pace.case_seconds,
    )
