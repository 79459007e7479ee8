"""The subcommand ``farwrite bench sizes``: its options, its table and its file."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.units import format_size
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.plugin import measuring
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import FARWRITE, PLUGIN, require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_shared
from farwrite_bench.record import Record
from farwrite_bench.table import markdown_table, text_table
from farwrite_experiments.library import MODULE as LIBRARY
from farwrite_experiments.networks.network import NETWORKS, SIX
from farwrite_experiments.sizes.rows import Row, make_row, overall, sizes_of_step
from farwrite_experiments.train.cluster import start
from farwrite_experiments.train.plan import EMULATED, Case, Way

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

FIRST_STEPS, STEPS = 1, 2
BATCH = 1
WORKERS = 1
START_SECONDS, MODEL_SECONDS = 15.0, 4.0
HEADERS = (
    "model",
    "tensors a step",
    "bytes a step",
    "smallest",
    "median",
    "largest",
    "over 10 KB",
    "over 1 MB",
    "bytes over 1 MB",
)
NOTE = (
    "The plug-in counted the tensors that crossed tasks in a step with one parameter server and one"
    " worker: each variable's value one way, its gradient the other. With more workers there are"
    " more tensors of the same sizes. 1 KB is 1024 bytes."
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``sizes``."""
    parser = kinds.add_parser(
        "sizes",
        help="show the sizes of the tensors of the papers' networks",
        description="Run steps of the papers' networks over Farwrite, and show how large the"
        " tensors are that cross tasks. farwrite run shows the same for a program of yours. Needs"
        " TensorFlow.",
        epilog="Example: farwrite bench sizes --model vgg16",
    )
    add_choices(parser, "--model", NETWORKS, default="the six of the paper")
    add_shared(parser, "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file."""
    require("farwrite bench sizes", "tensorflow")
    record = Record("sizes", quick=False)
    models = arguments.model or [network.key for network in SIX]
    cases = [Case(model, EMULATED, BATCH, workers=WORKERS) for model in models]
    record.announce(START_SECONDS + MODEL_SECONDS * len(cases))
    with measuring(PLUGIN, LIBRARY) as (bar, logs):
        rows = _measure(cases, bar, logs)
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [_cells(row) for row in rows])))
    shares = overall(rows)
    print(
        f"\nAll together: {shares['share_over_10KB']:.0%} of the tensors are over 10 KB and"
        f" {shares['share_over_1MB']:.0%} over 1 MB; those over 1 MB have"
        f" {shares['bytes_share_over_1MB']:.0%} of the bytes."
    )
    print(f"\n{NOTE}")
    write_json(arguments.json, record.facts((NOTE,), overall=shares, rows=rows))
    return 0


def _measure(cases: list[Case], bar: Callable[[float, str], None], logs: Path) -> list[Row]:
    rows = []
    with contextlib.ExitStack() as stack:
        bar(0.0, "starting processes")
        import_tensorflow(MALLOC, logs / "import.log")
        cluster = start(Way(FARWRITE), cases[0].layout, logs, stack)
        for number, case in enumerate(cases):
            bar(number / len(cases), case.model)
            cluster.open(case)
            cluster.take(case, FIRST_STEPS)
            before = cluster.observed()
            cluster.take(case, STEPS)
            sizes = sizes_of_step(before, cluster.observed(), STEPS)
            cluster.close(case)
            rows.append(make_row(case.network, case.batch, case.workers, sizes))
    return rows


def _cells(row: Row) -> tuple[str, ...]:
    sizes = row["sizes"]
    return (
        row["model"],
        str(len(sizes)),
        format_size(sum(sizes)),
        format_size(sizes[-1]),
        format_size(sizes[len(sizes) // 2]),
        format_size(sizes[0]),
        f"{row['share_over_10KB']:.0%}",
        f"{row['share_over_1MB']:.0%}",
        f"{row['bytes_share_over_1MB']:.0%}",
    )
