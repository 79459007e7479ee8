"""The subcommand ``farwrite bench ablations``: what each part of the design gains."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench import memory
from farwrite_bench.cluster.plugin import measuring
from farwrite_bench.cluster.transport import GRPC, PLUGIN, require
from farwrite_bench.figures import write_json
from farwrite_bench.options import add_choices, add_number, add_shared
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Row
from farwrite_bench.sizes import KIB, MIB
from farwrite_bench.table import markdown_table, text_table
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
from farwrite_bench.tensor.rows import failures
from farwrite_bench.tensor.run import run as measure

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SMALL = 4 * KIB
MEMORY_PER_WAY = 5.0
"""Memory of one way's servers, in networks: variables, gradients, and slots for both."""
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
    "network: a parameter server sends the variables of AlexNet to a worker, and the worker sends a"
    " gradient of each back, without the computation. small: one 4 KiB tensor. parallel: 20 of"
    " them at once. chain: 20 tensors of 256 bytes, each computed from the one before.",
    "added us: the step minus an empty step of the same two tasks. Counts are per step. requests:"
    " tensors that their receiver had to request. allocations: buffers allocated for received"
    " tensors. landed: tensors written into memory of the receiver. lent: tensors that the receiver"
    " used in the sender's memory.",
    "The ways take turns in every round. gRPC has TensorFlow's defaults. On every way a server has"
    " one thread per core, and graph optimizers are off, so that the graph runs as written.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``ablations``."""
    parser = kinds.add_parser(
        "ablations",
        help="measure what each way to send a tensor gains",
        description="Measure the step time of a communication-bound network and of small tensors in"
        " several ways: over stock gRPC; on request, with and without a copy at the sender; pushed"
        " into the receiver's memory; with each allocation policy. Also count registrations, and"
        " measure the throughput of copies by size. Needs TensorFlow.",
        epilog="Example: farwrite bench ablations --quick",
    )
    add_choices(parser, "--way", ABLATIONS)
    add_number(parser, "--rounds", 25)
    add_number(parser, "--seconds", 30, kind=float)
    add_shared(parser, "--quick", "--json", "--markdown")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the tables and write the JSON file; return 1 if a way failed in a case."""
    require("farwrite bench ablations", "tensorflow")
    record = Record("ablations", quick=arguments.quick)
    ways = tuple(key for key in ABLATIONS if key in (arguments.way or ABLATIONS))
    size = affordable(memory_available(), len(ways)) // (64 if arguments.quick else 1)
    if size < NETWORK_BYTES and not arguments.quick:
        record.notes.append(
            f"the available memory does not allow the whole network; measuring {format_size(size)}"
            " of it"
        )
    record.announce()
    cases = (
        Case(NETWORK, size),
        Case(SLICE, SMALL),
        Case(PARALLEL, SMALL),
        Case(CHAIN, CHAIN_BYTES),
    )
    rounds = 5 if arguments.quick else max(arguments.rounds, 1)
    seconds = 1.0 if arguments.quick else arguments.seconds
    with measuring(PLUGIN) as (bar, logs):
        rows = measure(TensorPlan(ways, cases, rounds, seconds), bar, logs)
        copies = memory.copies(
            memory.MemoryPlan.quick() if arguments.quick else memory.MemoryPlan.full()
        )
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, list(cells(rows)))))
    registrations = [_registrations(row) for row in rows if row["consumer"] == NETWORK]
    for line in (*failures(rows), *_small_tensors(rows), *_sentences(registrations), *NOTES):
        print(f"\n{line}")
    print()
    print("\n".join(table(("copy of", "GB/s"), [_copy_cells(copy) for copy in copies])))
    write_json(
        arguments.json,
        record.facts(
            NOTES,
            network_bytes=size,
            rows=rows,
            registrations=registrations,
            copies=copies,
        ),
    )
    return 1 if any(row["error"] for row in rows) else 0


def _name(row: Row) -> str:
    return "small" if row["consumer"] == SLICE else str(row["consumer"])


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Format the rows as the cells below `HEADERS`; a failed row shows no figures."""
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
    """Compare small tensors with stock gRPC, both minus the time of the graph in one process."""
    added = {(row["consumer"], row["transport"]): row["added_us"] for row in rows}
    for consumer, what, target in (
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
            yield (
                f"{what}: share of the time that stock gRPC adds (target {target}):"
                f" {', '.join(shares)}"
            )


def _registrations(row: Row) -> dict[str, Any]:
    """Count the registrations and the tensors moved, per step."""
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
            f"{each['way']}: {each['transfers_a_step']:g} tensors and"
            f" {each['registrations_a_step']:g} registrations per step"
        )


def _copy_cells(copy: dict[str, Any]) -> tuple[str, ...]:
    best = max(copy["gb_s"], key=copy["gb_s"].__getitem__)
    return format_size(copy["size"]), f"{copy['gb_s'][best]:.2f} ({best})"


def affordable(available: int, ways: int) -> int:
    """Return how many bytes of variables `ways` ways can hold at once in `available` bytes."""
    return max(min(NETWORK_BYTES, int((available - SPARE_BYTES) / (MEMORY_PER_WAY * ways))), MIB)
