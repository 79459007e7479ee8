"""The subcommand ``farwrite demo training``: its options, its table and its files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite_bench.cluster.plugin import make_ready
from farwrite_bench.cluster.transport import FARWRITE, GRPC, require
from farwrite_bench.demo.bars import Bar
from farwrite_bench.demo.training.cluster import train_all
from farwrite_bench.demo.training.plan import JOBS, LARGE, PROOFS, SMALL, SYNCHRONOUS_JOBS, Job
from farwrite_bench.demo.training.report import HEADERS, LEGEND, picture, report, rows, sentences
from farwrite_bench.demo.training.results import Facts, results
from farwrite_bench.figures import write
from farwrite_bench.machine import busy_note, load
from farwrite_bench.options import add_choices, count
from farwrite_bench.table import text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

TRANSPORTS = {transport.key: transport for transport in (GRPC, FARWRITE)}
MODELS = {"large": LARGE, "small": SMALL}
OUTPUT = Path("out/demo")


def add_parser(subparsers: Subparsers) -> None:
    """Add the subcommand ``training``."""
    parser = subparsers.add_parser(
        "training",
        help="train over stock gRPC and over Farwrite, and compare",
        description="One parameter server, two workers and a coordinator train a network on"
        " scikit-learn's digits, first over stock gRPC and then over Farwrite. The command writes"
        " report.html, report.svg and results.json. Needs TensorFlow and scikit-learn.",
        epilog="Example: farwrite demo training --output demo",
    )
    add_choices(parser, "--transport", TRANSPORTS)
    add_choices(parser, "--model", MODELS)
    parser.add_argument(
        "--steps", type=count, metavar="N", help="steps to measure (default: depends on the model)"
    )
    parser.add_argument(
        "--synchronous",
        action="store_true",
        help="make both workers step together, so that the weights repeat bit for bit",
    )
    parser.add_argument(
        "--output", type=Path, default=OUTPUT, help=f"folder for the results (default: {OUTPUT})"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Train over every transport, print the table and write the files.

    Returns
    -------
    int
        1 if synchronous runs ended with different weights, else 0.
    """
    require("farwrite demo training", "tensorflow", "sklearn")
    averages = load()
    note = busy_note(averages)
    if note:
        print(f"demo: {note}", file=sys.stderr)
    jobs = _jobs(SYNCHRONOUS_JOBS if arguments.synchronous else JOBS, arguments)
    proofs = [] if arguments.synchronous else _jobs(PROOFS, arguments)
    logs = arguments.output / "logs"
    transports = [
        transport
        for key, transport in TRANSPORTS.items()
        if arguments.transport is None or key in arguments.transport
    ]
    # Before any training, so that a plug-in that does not load costs no time.
    if not all(transport.stock for transport in transports):
        with Bar("Farwrite: plug-in") as bar:
            make_ready(logs / "plugin.log")
            bar.result("ready")
    runs = [run for each in transports for run in train_all(each, [*jobs, *proofs], logs)]
    facts = results(
        [run for run in runs if run.job in jobs],
        [run for run in runs if run.job in proofs],
        averages,
    )
    facts["tensorflow"] = _tensorflow_version()
    _print(facts)
    _write(facts, arguments.output)
    return 1 if any(w["identical"] is False for w in facts["synchronous_weights"]) else 0


def _jobs(all_jobs: Sequence[Job], arguments: argparse.Namespace) -> list[Job]:
    chosen = [MODELS[key] for key in arguments.model or MODELS]
    jobs = [job for job in all_jobs if job.model in chosen]
    if arguments.steps is not None:
        jobs = [replace(job, steps=arguments.steps) for job in jobs]
    return jobs


def _print(facts: Facts) -> None:
    print()
    print("\n".join(text_table(HEADERS, rows(facts))))
    print(f"({LEGEND})\n")
    for sentence in sentences(facts):
        print(sentence)


def _write(facts: Facts, folder: Path) -> None:
    write(folder / "results.json", json.dumps(facts, indent=1) + "\n")
    write(folder / "report.html", report(facts))
    write(folder / "report.svg", picture(facts))
    print(f"\nwritten: {folder / 'report.html'}, {folder / 'results.json'}")


def _tensorflow_version() -> str:
    for name in ("tensorflow", "tensorflow-cpu"):
        try:
            return f"{version(name)} ({name})"
        except PackageNotFoundError:
            continue
    return "unknown"
