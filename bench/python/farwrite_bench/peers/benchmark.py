"""``farwrite bench peers``: Farwrite beside other libraries, between two processes on one host."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farwrite.units import format_size
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import BySize
from farwrite_bench.harness.column import Column, Table, marked, ratio
from farwrite_bench.harness.memory import affordable_pool
from farwrite_bench.options import sizes
from farwrite_bench.p2p.plan import POOL_BYTES, QUICK_POOL_BYTES
from farwrite_bench.peers.adapters import PEERS
from farwrite_bench.peers.peer import FARWRITE, LIMIT
from farwrite_bench.peers.plan import (
    DEFAULT_SIZES,
    QUICK_ROUNDS,
    QUICK_SIZES,
    ROUNDS,
    WINDOW,
    Plan,
    expected_seconds,
)
from farwrite_bench.peers.run import run
from farwrite_bench.record import Record
from farwrite_bench.report.numbers import duration, rate
from farwrite_bench.report.parts import Card, Facts, Gain, Row, largest
from farwrite_bench.table import times

OURS = (LIMIT, *FARWRITE.values())
"""The keys of the raw loop and of Farwrite, which always take part."""
SHARED_POOLS = 2.0
"""The memory that all libraries with a Python API share, in pools."""
WIDEST = 60
"""The most letters of a command in the table; the sentences below have all of it."""
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


def plan(arguments: argparse.Namespace, record: Record) -> Plan:
    """Make the plan from the options."""
    peers = tuple(peer for peer in PEERS if peer.key in (*OURS, *arguments.peer))
    pools = SHARED_POOLS + sum(peer.memory for peer in peers if not peer.is_missing())
    pool = QUICK_POOL_BYTES if arguments.quick else POOL_BYTES
    affordable = affordable_pool(record, pool, pools)
    default_sizes = QUICK_SIZES if arguments.quick else DEFAULT_SIZES
    return Plan(
        peers=peers,
        sizes=arguments.sizes or tuple(each for each in default_sizes if each <= affordable // 2),
        rounds=arguments.rounds,
        pool_bytes=affordable,
        quick=arguments.quick,
    )


def measure(plan: Plan, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`."""
    return {"rows": run(plan, progress, logs)}


def settings(plan: Plan) -> dict[str, Any]:
    """Return the choices that the file names."""
    return {
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "window": WINDOW,
        "pool_bytes": plan.pool_bytes,
    }


def measured(facts: Facts) -> list[Row]:
    """Return the rows with figures."""
    return [row for row in facts["rows"] if row["p50_us"] is not None]


def compared(facts: Facts) -> list[Row]:
    """Return the rows that are compared with Farwrite."""
    return [row for row in facts["rows"] if row["of_farwrite"] is not None]


def ordered(facts: Facts) -> list[Row]:
    """Put the rows of a size together, the fastest first; those without figures come last."""

    def place(row: Row) -> tuple[int, float]:
        by_rate = row["ratio_of"] == "gb_s"
        return row["size"], -row["gb_s"] if by_rate else row["p50_us"]

    without = [row for row in facts["rows"] if row["p50_us"] is None]
    return sorted(measured(facts), key=place) + without


def sentences(facts: Facts) -> Iterator[str]:
    """Name who is ahead of Farwrite, who is missing, and the settings of each."""
    ahead: dict[str, list[Row]] = {}
    for row in compared(facts):
        if row["of_farwrite"]["median"] < 1:
            ahead.setdefault(row["name"], []).append(row)
    for name, rows in ahead.items():
        cases = ", ".join(
            f"{1 / row['of_farwrite']['median']:.2f}x at {format_size(row['size'])}" for row in rows
        )
        why = f": {rows[0]['why']}" if rows[0]["why"] else ""
        yield f"{name} is ahead of Farwrite, {cases}{why}."
    if compared(facts) and not ahead:
        yield "No peer is ahead of Farwrite at any of these sizes."
    for row in facts["rows"]:
        if row["missing"] is not None:
            yield f"{row['name']} is missing ({row['missing']}). Install it: {row['install']}"
    for name, used in dict.fromkeys((row["name"], row["settings"]) for row in measured(facts)):
        yield f"{name}: {used}"


def gains(facts: Facts) -> list[Gain]:
    """Compare every row with Farwrite, from the same language."""
    return [_gain(row) for row in compared(facts)]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain in Farwrite's own range, which is large transfers."""
    large = [_gain(row) for row in compared(facts) if row["ratio_of"] == "gb_s"]
    return largest(large, "the rate of another library")


def _gain(row: Row) -> Gain:
    what = "rate" if row["ratio_of"] == "gb_s" else "time"
    case = f"{what} of {format_size(row['size'])} between two processes, beside {row['name']}"
    than = f"{row['name']}, from {row['language']}"
    return Gain(case, row["of_farwrite"]["median"], than, row["why"] or "")


def _last(row: Row) -> str | None:
    """Write the target of a row, or how to install what is missing."""
    if row["missing"] is not None:
        line = f"missing: {row['install']}".splitlines()[0]
        return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."
    least = None if row["target"] is None else f">={row['target']:.2f}x"
    return marked(least, row["target_met"])


def _chart(title: str, y: str, value: str, **more: Any) -> BySize:
    # Short, as they stand beside the lines: "gloo" of "gloo (torch.distributed)".
    names = {peer.key: peer.name.split(" (")[0].split(".")[-1] for peer in PEERS}
    # Farwrite's two languages have to be told apart; the others have one each.
    names |= {key: f"{names[key]}, {language}" for language, key in FARWRITE.items()}
    return BySize(
        *(title, y, value),
        x="bytes of a transfer",
        series="peer",
        names=names,
        rows=measured,
        **more,
    )


BENCHMARK = Benchmark(
    name="peers",
    description="Move stamped payloads between two processes of this host, by Farwrite and by other"
    " libraries in turn, each with its own best settings. The receiver reads every byte. The limit"
    " is a memcpy into shared memory. A library that is not installed is a row that says how to"
    " install it.",
    title="Beside other libraries",
    example="farwrite bench peers --peer gloo --sizes 4K,64M",
    options=(
        option.chosen("--peer", [peer.key for peer in PEERS if peer.key not in OURS]),
        option.Option(
            "--sizes",
            "bytes of one transfer",
            kind=sizes,
            metavar="8,4K,...",
            shown="8,4K,64K,1M,16M,64M,256M; --quick: 8,64K,1M,16M",
        ),
        option.rounds(ROUNDS, quick=QUICK_ROUNDS),
    ),
    plan=plan,
    seconds=lambda plan: expected_seconds(plan, sum(not peer.is_missing() for peer in plan.peers)),
    measure=measure,
    settings=settings,
    settings_key="plan",
    summary=lambda plan: (
        f"window {WINDOW}, pool {format_size(plan.pool_bytes)}, median of {plan.rounds} rounds"
    ),
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("size", "size", format_size),
                Column(
                    "peer",
                    lambda row: (
                        f"{row['name']} {row['variant']}" if row["variant"] else row["name"]
                    ),
                ),
                Column("from", "language"),
                Column("p50 us", "p50_us", ".4g"),
                Column("p99 us", "p99_us", ".4g"),
                Column("GB/s read", "gb_s", ".3g"),
                Column("cpu s/GB", "cpu_s_per_gb", ".3g"),
                Column("copies", "copies", "g"),
                ratio("of the limit", "ratio_to_limit", ".2f"),
                Column("Farwrite is", "of_farwrite", lambda of: f"{times(of['median'])} better"),
                Column(
                    "spread", "of_farwrite", lambda of: f"{times(of['low'])} to {times(of['high'])}"
                ),
                Column("target", _last),
            ),
            rows=ordered,
            named=3,
        ),
    ),
    sentences=sentences,
    charts=(
        _chart("Time until the receiver has read one transfer", "time", "p50_us", write_y=duration),
        _chart("Rate of transfers that the receiver reads", "rate", "gb_s", write_y=rate),
    ),
    gains=gains,
    cards=cards,
)
