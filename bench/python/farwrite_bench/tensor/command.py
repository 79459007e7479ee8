"""The subcommand ``farwrite bench tensor``: its options, its table and its files."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.info import memory_available
from farwrite.units import format_size, parse_size
from farwrite_bench.cluster.plugin import make_ready
from farwrite_bench.cluster.transport import require
from farwrite_bench.machine import busy_note, load, machine
from farwrite_bench.table import ProgressBar, markdown_table, text_table
from farwrite_bench.tensor.plan import (
    CHAIN,
    CHAIN_BYTES,
    CHAIN_HOPS,
    CONSUMERS,
    DEFAULT_SIZES,
    FABRICS,
    GRPC_LIMIT,
    MEMORY_PER_SIZE,
    RAW,
    TCP_MEMORY_PER_SIZE,
    TRANSPORTS,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.raw import tuning
from farwrite_bench.tensor.run import run as measure
from farwrite_bench.tensor.tables import HEADERS, against_raw, cells, failures, picture

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SPARE_BYTES = 4 * 2**30
"""For the interpreters, each with TensorFlow in it."""
ELEMENT = 4
NOTES = (
    "A step of a session in a third process, on two servers: what it takes with the tensor, less"
    " what it takes with an operation in either task and no tensor (the empty step).",
    "The tensor is a variable, the same one every step: it cannot be rotated over cold memory as"
    " bench p2p does, so small ones stay in the caches, on every transport.",
    "of local: the step, of the same graph's inside one process. same control: the same after"
    " adding to the latter what an empty step of two tasks takes more than one of a single task.",
    "of raw: the bandwidth, as a share of what one tuned socket reaches with the same bytes in the"
    " same rounds. added: less the empty step, which for the raw socket is an answer of one byte.",
    "gRPC as TensorFlow sets it up: messages of up to 2 GB, no compression; a thread a core in"
    " every server, on every transport; graph optimizers off, so that the graph runs as written.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``tensor``."""
    parser = kinds.add_parser(
        "tensor",
        help="TensorFlow: a variable of one process, consumed in another",
        description="What a tensor adds to the step of a TensorFlow session when it crosses"
        " processes. slice takes one element of it, reduce_max reads all of it. Needs TensorFlow.",
    )
    parser.add_argument("--sizes", type=_sizes, default=DEFAULT_SIZES, metavar="4K,64M,...")
    parser.add_argument(
        "--transport",
        choices=TRANSPORTS,
        action="append",
        help="(default: all, raw only with --fabric tcp)",
    )
    parser.add_argument(
        "--fabric",
        choices=FABRICS,
        help="force Farwrite's fabric; tcp is measured beside a raw socket (default: its choice)",
    )
    parser.add_argument("--consumer", choices=CONSUMERS, action="append", help="(default: all)")
    parser.add_argument(
        "--chain",
        action="store_true",
        help=f"also a chain of {CHAIN_HOPS} dependent {CHAIN_BYTES}-byte tensors; with --sizes 0"
        " only that",
    )
    parser.add_argument(
        "--rounds", type=int, default=25, help="at most, in which transports take turns"
    )
    parser.add_argument(
        "--seconds", type=float, default=10, help="about, a size and consumer (default: 10)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="also draw a picture there")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table, write the files; 1 if a transport failed at something."""
    require("farwrite bench tensor", "tensorflow")
    averages = load()
    chosen = arguments.transport or [
        key for key in TRANSPORTS if key != RAW.key or arguments.fabric == "tcp"
    ]
    transports = tuple(key for key in TRANSPORTS if key in chosen)
    over_tcp = arguments.fabric == "tcp"
    sizes = affordable(arguments.sizes, transports, memory_available(), over_tcp=over_tcp)
    notes = [note for note in [busy_note(averages)] if note]
    if dropped := set(arguments.sizes) - set(sizes):
        notes.append(f"memory does not allow {', '.join(map(format_size, sorted(dropped)))}")
    if "grpc" in transports and max(sizes, default=0) >= GRPC_LIMIT:
        notes.append(
            f"stock gRPC is left out from {format_size(GRPC_LIMIT)} on: it cannot send a message of"
            " that size, and the step would not end"
        )
    if RAW.key in transports:
        notes.append(tuning())
    for note in notes:
        print(f"bench: {note}", file=sys.stderr)
    consumers = arguments.consumer or CONSUMERS
    cases = [Case(consumer, size) for consumer in consumers for size in sizes if size]
    if arguments.chain:
        cases.append(Case(CHAIN, CHAIN_BYTES))
    plan = TensorPlan(
        transports, tuple(cases), max(arguments.rounds, 1), arguments.seconds, arguments.fabric
    )
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            if any(not TRANSPORTS[key].stock for key in transports):
                bar(0.0, "getting the plug-in ready")
                make_ready(Path(logs) / "plugin.log")
            rows = measure(plan, bar, Path(logs))
        finally:
            bar.clear()
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    for line in (*failures(rows), *against_raw(rows), *NOTES):
        print(f"\n{line}")
    facts = {
        "machine": machine(),
        "load": averages,
        "notes": [*notes, *NOTES],
        "fabric": plan.fabric,
        "rounds": plan.rounds,
        "rows": rows,
    }
    if arguments.json is not None:
        _write(arguments.json, json.dumps(facts, indent=1) + "\n")
    if arguments.svg is not None:
        _write(arguments.svg, picture(rows))
    return 1 if any(row["error"] for row in rows) else 0


def affordable(
    sizes: Sequence[int], transports: Sequence[str], available: int, *, over_tcp: bool = False
) -> list[int]:
    """Leave out the sizes for which `available` bytes do not suffice."""

    def needed(size: int) -> float:
        taking_part = (key for key in transports if key != "grpc" or size < GRPC_LIMIT)
        return size * sum(
            MEMORY_PER_SIZE[key]
            + (TCP_MEMORY_PER_SIZE if over_tcp and not TRANSPORTS[key].stock else 0.0)
            for key in taking_part
        )

    return [size for size in sizes if needed(size) <= max(available - SPARE_BYTES, 0)]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = [parse_size(part) for part in text.split(",") if part]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if any(size % ELEMENT for size in sizes):
        raise argparse.ArgumentTypeError(f"{text}: sizes are multiples of {ELEMENT} bytes")
    return tuple(dict.fromkeys(sizes))
