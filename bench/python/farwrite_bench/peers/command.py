"""The subcommand ``farwrite bench peers``: its options, its table and its file."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farwrite.units import format_size
from farwrite_bench.figures import write, write_json
from farwrite_bench.harness.memory import affordable_pool
from farwrite_bench.options import add_choices, add_number, add_shared, count, sizes
from farwrite_bench.p2p.plan import POOL_BYTES, QUICK_POOL_BYTES
from farwrite_bench.peers.adapters import PEERS
from farwrite_bench.peers.charts import picture
from farwrite_bench.peers.peer import FARWRITE, LIMIT, Peer
from farwrite_bench.peers.plan import (
    DEFAULT_SIZES,
    QUICK_ROUNDS,
    QUICK_SIZES,
    ROUNDS,
    WINDOW,
    Plan,
    expected_seconds,
)
from farwrite_bench.peers.rows import make_rows
from farwrite_bench.peers.run import run as measure
from farwrite_bench.peers.tables import HEADERS, cells, ordered, sentences, settings
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[Any]

SHARED_POOLS = 2.0
"""The memory that all libraries with a Python API share, in pools."""
NOTES = (
    "p50, p99: one transfer at a time; below 1 MiB half of a round trip with the bytes both ways,"
    " warm, and from there one way, cold, from before the call until the receiver has read the"
    f" bytes. GB/s read: {WINDOW} transfers under way, cold, until the receiver has read and"
    " acknowledged all.",
    "Farwrite is: how many times better Farwrite is than the row, driven from the same language:"
    " time below 1 MiB, rate from there; the median over the rounds, its lowest and highest. Below"
    " 1, the row is ahead. of the limit: the same of the row beside a raw loop, a memcpy into"
    " shared memory.",
    "cpu s/GB: user and system time of both processes and of the library's helpers. copies: passes"
    " over the bytes, the reading excepted; Farwrite counts them, the others document them.",
)


def add_parser(kinds: Subparsers) -> None:
    """Add the subcommand ``peers``."""
    parser = kinds.add_parser(
        "peers",
        help="compare Farwrite with UCX, OpenMPI, NIXL, gRPC and others",
        description="Move stamped payloads between two processes of this host, by Farwrite and by"
        " other libraries in turn, each with its own best settings. The receiver reads every byte."
        " A library that is not installed is a row that says how to install it.",
        epilog="Example: farwrite bench peers --peer gloo --sizes 4K,64M",
    )
    add_choices(parser, "--peer", [peer.key for peer in PEERS if peer.key not in OURS])
    parser.add_argument(
        "--sizes",
        type=sizes,
        metavar="8,4K,...",
        help="bytes of one transfer (default: 8,4K,64K,1M,16M,64M,256M)",
    )
    add_number(parser, "--rounds", ROUNDS, quick=QUICK_ROUNDS, kind=count)
    add_shared(parser, "--quick", "--json", "--svg", "--markdown")
    parser.set_defaults(run=run)


OURS = (LIMIT, *FARWRITE.values())


def chosen(keys: Sequence[str] | None) -> list[Peer]:
    """Return the peers of these keys; Farwrite and the raw loop always take part."""
    return [peer for peer in PEERS if peer.key in OURS or keys is None or peer.key in keys]


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file; return 1 if Farwrite failed."""
    record = Record("peers", quick=arguments.quick)
    wanted = chosen(arguments.peer)
    present = [peer for peer in wanted if not peer.is_missing()]
    pool = QUICK_POOL_BYTES if arguments.quick else POOL_BYTES
    pools = SHARED_POOLS + sum(peer.memory for peer in present)
    affordable = affordable_pool(record, pool, pools)
    default_sizes = QUICK_SIZES if arguments.quick else DEFAULT_SIZES
    plan = Plan(
        peers=tuple(wanted),
        sizes=arguments.sizes or tuple(each for each in default_sizes if each <= affordable // 2),
        rounds=arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS),
        pool_bytes=affordable,
        quick=arguments.quick,
    )
    record.announce(expected_seconds(plan, len(present)))
    bar = ProgressBar()
    with tempfile.TemporaryDirectory(prefix="farwrite-bench-") as logs:
        try:
            result = measure(plan, bar, Path(logs))
        finally:
            bar.clear()
    rows = make_rows(plan, result)
    shown = ordered(rows)
    print(
        f"{record.conditions()}; window {WINDOW}, pool {format_size(affordable)}, median of"
        f" {plan.rounds} rounds\n"
    )
    table = markdown_table if arguments.markdown else text_table
    print("\n".join(table(HEADERS, [cells(row) for row in shown])))
    for line in (*sentences(rows), *settings(rows), *NOTES):
        print(f"\n{line}")
    facts = {
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "window": WINDOW,
        "pool_bytes": plan.pool_bytes,
    }
    write_json(arguments.json, record.facts(NOTES, plan=facts, rows=rows))
    if arguments.svg is not None:
        write(arguments.svg, picture(rows))
    return 1 if any(key in result.failed for key in OURS) else 0
