"""The subcommand ``farwrite bench ablations``: what each part of the design is worth."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench import memory
from farwrite_bench.cluster.plugin import make_ready
from farwrite_bench.cluster.transport import GRPC, require
from farwrite_bench.machine import busy_note, load, machine
from farwrite_bench.plan import KIB, MIB
from farwrite_bench.table import ProgressBar, markdown_table, text_table
from farwrite_bench.tensor.network import NETWORK_BYTES
from farwrite_bench.tensor.plan import (
    ABLATIONS,
    CHAIN,
    CHAIN_BYTES,
    LOCAL,
    NETWORK,
    PARALLEL,
    PARALLEL_TENSORS,
    SLICE,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.rows import Row
from farwrite_bench.tensor.run import run as measure
from farwrite_bench.tensor.tables import failures

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SMALL = 4 * KIB
MEMORY_PER_WAY = 5.0
"""What the servers of one way hold at once, in networks: variables, gradients, slots for both."""
SPARE_BYTES = 5 * 2**30
HEADERS = (
    "case",
    "way",
    "fabric",
    "step ms",
    "added us",
    "95 % interval",
    "of grpc",
    "requests",
    "allocations",
    "copies",
    "landed",
    "lent",
    "cpu ms",
)
NOTES = (
    "network: the variables of AlexNet from a parameter server to a worker and a gradient of each"
    " back, without the computation. small: one 4 KiB tensor; parallel: 20 of them at once; chain:"
    " 20 of 256 bytes, each computed from the one before.",
    "added: the step less an empty step of the same two tasks. Counts are of a step. requests:"
    " tensors that their receiver had to ask for; allocations: made for what was received.",
    "The ways take turns in every round. gRPC as TensorFlow sets it up; a thread a core in every"
    " server, on every way; graph optimizers off, so that the graph runs as written.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``ablations``."""
    parser = kinds.add_parser(
        "ablations",
        help="TensorFlow: what zero copy, pushing and each allocation policy are worth",
        description="Step time of a communication-bound network and of small tensors: stock, asked"
        " for with a copy at the sender, asked for without, pushed into place, and by each"
        " allocation policy. Then registrations, and copy throughput by size. Needs TensorFlow.",
    )
    parser.add_argument(
        "--way",
        choices=ABLATIONS,
        action="append",
        help="may be given several times (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=25, help="at most (default: 25)")
    parser.add_argument("--seconds", type=float, default=30, help="about, a case (default: 30)")
    parser.add_argument("--quick", action="store_true", help="small and few; not quotable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables, write the file; 1 if a way failed at something."""
    require("farwrite bench ablations", "tensorflow")
    averages = load()
    ways = tuple(key for key in ABLATIONS if key in (arguments.way or ABLATIONS))
    size = affordable(memory_available(), len(ways)) // (64 if arguments.quick else 1)
    notes = [note for note in [busy_note(averages)] if note]
    if size < NETWORK_BYTES and not arguments.quick:
        notes.append(f"memory does not allow the whole network: {format_size(size)} of it")
    for note in notes:
        print(f"bench: {note}", file=sys.stderr)
    cases = (
        Case(NETWORK, size),
        Case(SLICE, SMALL),
        Case(PARALLEL, SMALL),
        Case(CHAIN, CHAIN_BYTES),
    )
    rounds = 5 if arguments.quick else max(arguments.rounds, 1)
    seconds = 1.0 if arguments.quick else arguments.seconds
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            bar(0.0, "getting the plug-in ready")
            make_ready(Path(logs) / "plugin.log")
            rows = measure(TensorPlan(ways, cases, rounds, seconds), bar, Path(logs))
            copies = memory.copies(
                memory.MemoryPlan.quick() if arguments.quick else memory.MemoryPlan.full()
            )
        finally:
            bar.clear()
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(_cells(rows)))))
    registrations = [_registrations(row) for row in rows if row["consumer"] == NETWORK]
    for line in (*failures(rows), *_small_tensors(rows), *_sentences(registrations), *NOTES):
        print(f"\n{line}")
    print()
    print("\n".join(table(("copy of", "GB/s"), [_copy_cells(copy) for copy in copies])))
    if arguments.json is not None:
        facts = {
            "machine": machine(),
            "load": averages,
            "notes": [*notes, *NOTES],
            "network_bytes": size,
            "rows": rows,
            "registrations": registrations,
            "copies": copies,
        }
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 1 if any(row["error"] for row in rows) else 0


def _name(row: Row) -> str:
    return "small" if row["consumer"] == SLICE else str(row["consumer"])


def _cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    stock = {row["consumer"]: row["added_us"] for row in rows if row["transport"] == GRPC.key}
    for row in rows:
        named = (_name(row), row["transport"], row["fabric"])
        if row["error"] is not None:
            yield (*named, "failed", *["-"] * (len(HEADERS) - 4))
            continue
        low, high = row["added_us_ci"]
        base = stock.get(row["consumer"])
        ours = row["transport"] not in (GRPC.key, LOCAL.key)
        counters = row["counters"]
        counts = [
            f"{counters.get('offers_read', 0) + counters.get('grpc_recv_tensor_calls', 0):g}",
            f"{counters.get('read_allocations', 0):g}",
            f"{counters.get('copies', 0):g}",
            f"{counters.get('pushes_landed', 0):g}",
            f"{counters.get('pushes_alias', 0):g}",
        ]
        yield (
            *named,
            f"{row['step_ms']:.3f}",
            f"{row['added_us']:.0f}",
            f"{low:.0f} to {high:.0f}",
            f"{row['added_us'] / base:.3f}" if base and ours else "-",
            *(counts if ours else ["-"] * 5),
            f"{row['cpu_ms']:.1f}",
        )


def _small_tensors(rows: Sequence[Row]) -> Iterator[str]:
    """Say what small tensors cost against stock, less what the same graph takes in one process."""
    added = {(row["consumer"], row["transport"]): row["added_us"] for row in rows}
    for consumer, what, wanted in (
        (SLICE, "one 4 KiB tensor", 0.5),
        (PARALLEL, f"each of {PARALLEL_TENSORS} 4 KiB tensors", 0.2),
    ):
        local = added.get((consumer, LOCAL.key)) or 0.0
        stock = added.get((consumer, GRPC.key))
        shares = [
            f"{key} {(added[consumer, key] - local) / (stock - local):.2f}"
            for key in ABLATIONS
            if stock and key not in (GRPC.key, LOCAL.key) and added.get((consumer, key))
        ]
        if shares:
            yield f"{what}, share of what stock adds (wanted {wanted}): {', '.join(shares)}"


def _registrations(row: Row) -> dict[str, Any]:
    """Count what was registered while steps ran, and what moved."""
    counters = row.get("counters") or {}
    moved = sum(
        counters.get(name, 0) for name in ("pushes_alias", "pushes_landed", "pushes_inline")
    )
    return {
        "way": row["transport"],
        "transfers_a_step": moved,
        "registrations_a_step": counters.get("registrations", 0),
        "refused_by_arena": counters.get("arena_refusals", 0),
    }


def _sentences(registrations: Sequence[dict[str, Any]]) -> Iterator[str]:
    for each in registrations:
        if each["way"] in (GRPC.key, LOCAL.key):
            continue
        yield (
            f"{each['way']}: {each['transfers_a_step']:g} tensors a step,"
            f" {each['registrations_a_step']:g} registrations"
        )


def _copy_cells(copy: dict[str, Any]) -> tuple[str, ...]:
    best = max(copy["gb_s"], key=copy["gb_s"].__getitem__)
    return format_size(copy["size"]), f"{copy['gb_s'][best]:.2f} ({best})"


def affordable(available: int, ways: int) -> int:
    """Return how many bytes of variables `available` memory allows for so many ways at once."""
    return max(min(NETWORK_BYTES, int((available - SPARE_BYTES) / (MEMORY_PER_WAY * ways))), MIB)
