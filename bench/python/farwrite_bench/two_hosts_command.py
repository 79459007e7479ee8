"""The options of ``farwrite bench p2p`` for two hosts, and what it prints between them."""

from __future__ import annotations

import argparse
from typing import Any

from farwrite import Device
from farwrite.units import format_size
from farwrite_bench import two_hosts
from farwrite_bench.figures import write_json
from farwrite_bench.pair import POLLING_SPIN_SECONDS
from farwrite_bench.plan import KIB, MIB
from farwrite_bench.record import Record
from farwrite_bench.table import ProgressBar, markdown_table, text_table

SIZES = (4 * KIB, 64 * KIB, MIB, 2 * MIB)
POOL_BYTES = 256 * MIB
QUICK_POOL_BYTES = 16 * MIB
WINDOW = 128
"""The default of perftest."""

HEADERS = ("op", "size", "GB/s", "spread", "single us", "copies", "regs", "verified")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only runs between two hosts use."""
    hosts = parser.add_argument_group(
        "between two hosts",
        "One host runs with --serve. The other runs with --peer: it writes and reads the memory of"
        " the first (--op write,read). No raw loop runs for comparison; compare with ib_write_bw"
        " and ib_read_bw.",
    )
    role = hosts.add_mutually_exclusive_group()
    role.add_argument(
        "--serve", action="store_true", help="serve each peer that connects, until Ctrl-C"
    )
    role.add_argument(
        "--peer",
        metavar="HOST:PORT",
        help="measure with the host that serves at this address",
    )
    hosts.add_argument("--once", action="store_true", help="with --serve: end after one peer")
    hosts.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="address at which this host listens (default: 127.0.0.1:0)",
    )
    hosts.add_argument(
        "--transfers",
        type=int,
        default=0,
        metavar="N",
        help="transfers of one round (default: as many as move the pool once)",
    )


def _device(arguments: argparse.Namespace) -> Device:
    options: dict[str, Any] = {}
    if arguments.fabric:
        options["fabrics"] = [arguments.fabric]
    if arguments.listen:
        options["listen"] = arguments.listen
    return Device(spin=POLLING_SPIN_SECONDS if arguments.wait == "poll" else 0.0, **options)


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve every peer until Ctrl-C, or one peer with ``--once``."""
    with _device(arguments) as device:
        print(f"bench: serving at {device.endpoint}", flush=True)
        two_hosts.serve(device, arguments.once)
    return 0


def run_peer(arguments: argparse.Namespace) -> int:
    """Measure, print the table and write the JSON file; return 1 if a word arrived wrong."""
    record = Record("p2p", quick=arguments.quick)
    plan = two_hosts.HostPlan(
        ops=tuple(dict.fromkeys(op for ops in arguments.op or [two_hosts.OPS] for op in ops)),
        sizes=arguments.sizes or SIZES,
        window=arguments.window or WINDOW,
        rounds=arguments.rounds,
        pool_bytes=arguments.pool or (QUICK_POOL_BYTES if arguments.quick else POOL_BYTES),
        transfers=arguments.transfers,
    )
    bar = ProgressBar()
    try:
        with _device(arguments) as device:
            channel, rows = two_hosts.ask(device, arguments.peer, plan, bar)
    finally:
        bar.clear()
    table = markdown_table if arguments.markdown else text_table
    print(
        f"{channel['fabric']} to {channel['peer']}, wait {arguments.wait}, window {plan.window},"
        f" pool {format_size(plan.pool_bytes)}, median of {plan.rounds} rounds, load"
        f" {record.load[0]}\n"
    )
    print("\n".join(table(HEADERS, [cells(row) for row in rows])))
    write_json(arguments.json, record.facts(channel=channel, rows=rows))
    return 0 if all(row["verified"] for row in rows) else 1


def cells(row: two_hosts.Json) -> tuple[str, ...]:
    """Format one row as the cells below `HEADERS`."""
    low, high = row["gb_s_spread"]
    registrations = sum(
        side[name] for side in row["counters"].values() for name in side if name != "copies"
    )
    return (
        row["op"],
        format_size(row["size"]),
        f"{row['gb_s']:.3g}",
        f"{low:.3g} to {high:.3g}",
        f"{row['single_us']:.4g}",
        f"{row['copies']:g}",
        str(registrations),
        "yes" if row["verified"] else f"NO: {row['wrong_words']} words wrong",
    )
