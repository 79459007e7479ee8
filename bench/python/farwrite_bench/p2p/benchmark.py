"""``farwrite bench p2p``: write, read, notify and alias, beside a raw loop."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from farwrite import trace
from farwrite.units import format_size
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars, BySize, Chart
from farwrite_bench.harness.column import Column, Table, in_full, marked, span
from farwrite_bench.harness.memory import affordable_pool
from farwrite_bench.machine import machine
from farwrite_bench.options import size, sizes
from farwrite_bench.p2p import hosts
from farwrite_bench.p2p import plan as of
from farwrite_bench.p2p.hosts import HostPlan
from farwrite_bench.p2p.plan import Plan, expected_seconds
from farwrite_bench.p2p.run import run
from farwrite_bench.record import Record
from farwrite_bench.report.numbers import duration
from farwrite_bench.report.parts import Card, Facts, Row, figure
from farwrite_bench.table import times


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only runs between two hosts use."""
    trace.add_option(parser)
    group = parser.add_argument_group(
        "between two hosts",
        "One host runs with --serve. The other runs with --peer: it writes and reads the memory of"
        " the first (--op write,read). No raw loop runs for comparison; compare with ib_write_bw"
        " and ib_read_bw.",
    )
    role = group.add_mutually_exclusive_group()
    role.add_argument(
        "--serve", action="store_true", help="serve each peer that connects, until Ctrl-C"
    )
    role.add_argument(
        "--peer", metavar="HOST:PORT", help="measure with the host that serves at this address"
    )
    group.add_argument("--once", action="store_true", help="with --serve: end after one peer")
    group.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="address at which this host listens (default: 127.0.0.1:0)",
    )
    group.add_argument(
        "--transfers",
        type=int,
        default=0,
        metavar="N",
        help="transfers of one round (default: as many as move the pool once)",
    )


def serve(arguments: argparse.Namespace) -> int | None:
    """Serve every peer until Ctrl-C, or one peer with ``--once``; None without ``--serve``."""
    if not arguments.serve:
        return None
    with hosts.open_device(arguments.fabric, arguments.listen, arguments.wait) as device:
        print(f"bench: serving at {device.endpoint}", flush=True)
        hosts.serve(device, arguments.once)
    return 0


def plan(arguments: argparse.Namespace, record: Record) -> Plan | HostPlan:
    """Make the plan from the options."""
    ops = tuple(dict.fromkeys(op for named in arguments.op or () for op in named))
    if arguments.peer:
        pool = hosts.QUICK_POOL_BYTES if arguments.quick else hosts.POOL_BYTES
        return HostPlan(
            peer=arguments.peer,
            fabric=arguments.fabric,
            listen=arguments.listen,
            wait=arguments.wait,
            ops=ops or hosts.OPS,
            sizes=arguments.sizes or hosts.SIZES,
            window=arguments.window or hosts.WINDOW,
            rounds=arguments.rounds,
            pool_bytes=arguments.pool or pool,
            transfers=arguments.transfers,
        )
    fabric = arguments.fabric or "shm"
    pool = arguments.pool or (of.QUICK_POOL_BYTES if arguments.quick else of.POOL_BYTES)
    affordable = affordable_pool(record, pool, of.MEMORY_PER_POOL)
    if affordable < of.POOL_BYTES:
        record.notes.append(
            f"a pool of {format_size(affordable)} may fit into the caches, so large transfers are"
            " not cold; do not quote these figures"
        )
    default_sizes = of.QUICK_SIZES if arguments.quick else of.DEFAULT_SIZES
    return Plan(
        fabric=fabric,
        ops=ops or of.FABRIC_OPS.get(fabric, of.OPS),
        sizes=arguments.sizes or tuple(each for each in default_sizes if each <= affordable // 2),
        wait=arguments.wait,
        lanes=arguments.lanes,
        window=4 if arguments.window is None else arguments.window,
        pool_bytes=affordable,
        rounds=arguments.rounds,
        quick=arguments.quick,
    )


def measure(plan: Plan | HostPlan, progress: Progress, logs: Path) -> Facts:
    """Measure within this host, or with another one."""
    if isinstance(plan, HostPlan):
        return hosts.measure(plan, progress)
    return run(plan, progress, logs)


def settings(plan: Plan | HostPlan) -> dict[str, Any]:
    """Return the choices that the file names; those between hosts are facts of the channel."""
    if isinstance(plan, HostPlan):
        return {}
    names = ("fabric", "ops", "wait", "pool_bytes", "rounds")
    return {name: getattr(plan, name) for name in names}


def summary(plan: Plan | HostPlan) -> str:
    """Say what a run does."""
    common = (
        f"wait {plan.wait}, window {plan.window}, pool {format_size(plan.pool_bytes)}, median of"
        f" {plan.rounds} rounds"
    )
    if isinstance(plan, HostPlan):
        return common
    known = machine()
    return (
        f"copy kernel {known['copy_kernel']}, huge pages {known['shm_huge_pages']}; fabric"
        f" {plan.fabric}, lanes {plan.lanes}, {common}"
    )


def sentences(facts: Facts) -> Iterator[str]:
    """Name the other host, and say how the time of an alias depends on its size."""
    if (channel := facts.get("channel")) is not None:
        yield f"{channel['fabric']} to {channel['peer']}: {channel['reason']}"
    aliases = [row for row in facts["rows"] if row["op"] == "alias"]
    if len(aliases) > 1:
        taken = ", ".join(
            f"{in_full(row['p50_us'], '.3g')} us at {format_size(row['size'])}" for row in aliases
        )
        copies = sum(row["copies"] for row in aliases)
        growth = aliases[-1]["p50_us"] / aliases[0]["p50_us"]
        yield (
            f"alias: {taken}; the last size takes {in_full(growth, '.2g')} times as long as the"
            f" first; {copies:g} copies"
        )


def cards(facts: Facts) -> list[Card]:
    """Choose the share of the limit that the largest write reaches."""
    writes = [
        row
        for row in within_a_host(facts)
        if row["op"] == "write" and row["ratio_of"] == "gb_s_read"
    ]
    if not writes:
        return []
    largest = max(writes, key=lambda row: int(row["size"]))
    what = f"of a raw loop's rate, writes of {format_size(largest['size'])} over"
    return [(f"{largest['ratio']:.0%}", f"{what} {largest['fabric']}")]


def within_a_host(facts: Facts) -> list[Row]:
    """Return the rows of a run within one host."""
    return [] if "channel" in facts else facts["rows"]


def between_hosts(facts: Facts) -> list[Row]:
    """Return the rows of a run between hosts, with the fabric of their channel."""
    fabric = facts.get("channel", {}).get("fabric")
    return [{**row, "way": f"farwrite-{fabric}"} for row in facts["rows"]] if fabric else []


def _both(facts: Facts) -> list[Row]:
    """Return a row for Farwrite and one for the limit, for each row within a host."""
    names = ("p50_us", "gb_s_read", "gb_s_read_spread")
    return [
        {**row, "way": way, **{name: row.get(f"{before}{name}") for name in names}}
        for row in within_a_host(facts)
        for way, before in ((f"farwrite-{row['fabric']}", ""), ("limit", "limit_"))
    ]


def _alone(facts: Facts) -> list[Row]:
    """Return the rows of operations with one size, and of aliases, whose size does not matter."""
    return [row for row in _both(facts) if row["op"] == "alias" or _sizes(facts, row["op"]) == 1]


def _sizes(facts: Facts, op: str) -> int:
    return len({row["size"] for row in facts["rows"] if row["op"] == op})


def _latency(row: Row) -> str:
    """Write the latency of a row, and its ratio where that is one of latencies."""
    compared = row["way"] != "limit" and row["ratio_of"] == "p50_us"
    return f"{figure(row['p50_us'])} µs" + (f" ({times(row['ratio'])})" if compared else "")


def _case(row: Row) -> str:
    return f"{row['op']}, {format_size(row['size'])}" if row["size"] else str(row["op"])


_NAMES = {f"farwrite-{fabric}": "Farwrite" for fabric in of.FABRIC_OPS}


def _by_size(op: str) -> tuple[Chart, ...]:
    def rows(facts: Facts) -> list[Row]:
        return [row for row in _both(facts) if row["op"] == op and _sizes(facts, op) > 1]

    shared: dict[str, Any] = {"x": "bytes of a transfer", "names": _NAMES, "rows": rows}
    rate = f"{op}: rate, the receiver reads all bytes"
    time = f"{op}: latency, one way, median"
    return (
        BySize(rate, "GB/s", "gb_s_read", rounds="gb_s_read_spread", log_y=False, **shared),
        BySize(time, "time", "p50_us", write_y=duration, **shared),
    )


def _moved(key: str) -> Callable[[Row], Any]:
    """Return what a notification, which moves no bytes, does not have."""
    return lambda row: row[key] if row["op"] != "notify" else None


def _registrations(row: Row) -> int:
    return sum(side[name] for side in row["counters"].values() for name in side if name != "copies")


def _names(text: str) -> tuple[str, ...]:
    found = tuple(part for part in text.split(",") if part)
    if not found:
        raise argparse.ArgumentTypeError("no name; use one or more, with commas between")
    return found


BENCHMARK: Benchmark[Plan | HostPlan] = Benchmark(
    name="p2p",
    description="Move stamped payloads between two processes. write: the sender writes into the"
    " receiver's memory and notifies it. read: the receiver reads the sender's memory. notify: the"
    " sender sends a notification without bytes, in one row for all sizes. alias: the sender sends"
    " a notification, and the receiver opens a view of the sender's memory. The limit is a raw loop"
    " that moves the same bytes and does nothing else.",
    title="Bytes between two processes",
    example="farwrite bench p2p --op write --sizes 4K,64M",
    options=(
        option.Option(
            "--fabric",
            "shm (the default) is compared with copies in shared memory, tcp with plain sockets;"
            " between hosts any fabric (default: Farwrite chooses)",
            kind=str,
            metavar="FABRIC",
        ),
        option.Option(
            "--sizes",
            "bytes of one transfer",
            kind=sizes,
            metavar="8,4K,...",
            shown="8,4K,64K,256K,1M,16M,64M,256M; --quick: 8,4K,64K,1M,16M; between hosts:"
            " 4K,64K,1M,2M",
        ),
        option.Option(
            "--op",
            "operation to measure, or a list with commas; may be given several times",
            kind=_names,
            metavar="|".join(of.OPS),
            many=True,
            shown="all",
        ),
        option.Option(
            "--wait",
            "how a receiver waits: poll keeps its core busy, block sleeps",
            "poll",
            choices=("poll", "block"),
        ),
        option.Option("--lanes", "threads in each process", 1, kind=int),
        option.Option(
            "--window",
            "transfers under way on each lane",
            kind=int,
            shown="4; between hosts: 128",
        ),
        option.rounds(of.ROUNDS, quick=of.QUICK_ROUNDS),
        option.Option(
            "--pool",
            "memory that the transfers use in rotation",
            kind=size,
            metavar="SIZE",
            shown="1G; --quick: 64M; between hosts: 256M and 16M",
        ),
    ),
    more_options=add_host_options,
    instead=serve,
    plan=plan,
    seconds=lambda plan: None if isinstance(plan, HostPlan) else expected_seconds(plan),
    measure=measure,
    settings=settings,
    settings_key="plan",
    summary=summary,
    notes=lambda _: (),
    tables=(
        Table(
            (
                Column("op", "op"),
                Column("size", _moved("size"), format_size),
                Column("p50 us", "p50_us", ".4g"),
                Column("p99 us", "p99_us", ".4g"),
                Column("GB/s", _moved("gb_s"), ".2f"),
                Column("GB/s read", _moved("gb_s_read"), ".2f"),
                Column("limit p50", "limit_p50_us", ".4g"),
                Column("limit GB/s read", _moved("limit_gb_s_read"), ".2f"),
                Column(
                    "ratio",
                    lambda row: (
                        f"{row['ratio']:.2f} of"
                        f" {'GB/s read' if row['ratio_of'] == 'gb_s_read' else 'p50'}"
                    ),
                ),
                Column("unread", _moved("ratio_unread"), ".2f"),
                Column("target", lambda row: marked(row["target"], row["target_met"])),
                Column("copies", "copies", "g"),
                Column("regs", "registrations"),
                Column(
                    "verified",
                    lambda row: "yes" if row["verified"] else f"NO: {row['wrong_transfers']} wrong",
                ),
            ),
            rows=within_a_host,
            named=2,
        ),
        Table(
            (
                Column("op", "op"),
                Column("size", "size", format_size),
                Column("GB/s", "gb_s", ".3g"),
                span("spread", "gb_s_spread", ".3g"),
                Column("single us", "single_us", ".4g"),
                Column("copies", "copies", "g"),
                Column("regs", _registrations),
                Column(
                    "verified",
                    lambda row: (
                        "yes" if row["verified"] else f"NO: {row['wrong_words']} words wrong"
                    ),
                ),
            ),
            rows=between_hosts,
            named=2,
        ),
    ),
    sentences=sentences,
    charts=(
        *_by_size("write"),
        *_by_size("read"),
        Bars(
            "Latency, one way, median",
            _case,
            "p50_us",
            "µs",
            names=_NAMES,
            rows=_alone,
            write=_latency,
            note="In brackets: the row's ratio, the median of the rounds' times the limit's.",
        ),
        Bars(
            "Rate between two hosts",
            _case,
            "gb_s",
            "GB/s",
            rounds="gb_s_spread",
            names=_NAMES,
            rows=between_hosts,
        ),
    ),
    cards=cards,
    passed=lambda facts: all(row["verified"] for row in facts["rows"]),
)
