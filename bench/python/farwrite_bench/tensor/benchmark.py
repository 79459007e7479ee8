"""``farwrite bench tensor``: the time that a tensor adds to a step of two tasks of TensorFlow."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from farwrite.units import format_size
from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.readings import write_control
from farwrite_bench.cluster.transport import FARWRITE, GRPC, Transport, fabric_in_words
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars, BySize, Chart
from farwrite_bench.harness.column import Column, Table, span
from farwrite_bench.harness.memory import affordable
from farwrite_bench.options import sizes
from farwrite_bench.record import Record
from farwrite_bench.report.numbers import duration
from farwrite_bench.report.parts import Card, Facts, Gain, Row, largest, rows_of
from farwrite_bench.sizes import GIB, KIB, MIB
from farwrite_bench.tensor.plan import (
    CHAIN,
    CHAIN_BYTES,
    CHAIN_HOPS,
    CONSUMERS,
    GRPC_LIMIT,
    LOCAL,
    PARALLEL,
    PARALLEL_BYTES,
    PARALLEL_TENSORS,
    RAW,
    SMALL_CASES,
    SPARE_BYTES,
    TRANSPORTS,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.raw import tuning
from farwrite_bench.tensor.rows import ratios
from farwrite_bench.tensor.run import FEWEST_ROUNDS, run

ELEMENT = 4
DEFAULT_SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB)
QUICK_SIZES = (4 * KIB, MIB, 64 * MIB)
ROUNDS, QUICK_ROUNDS = 25, 3
RAW_TARGET, RAW_TARGET_FROM = 0.85, 16 * MIB
"""The target share of the raw socket's bandwidth over tcp, and the size from which it holds."""
MEMORY_PER_SIZE = {"grpc": 4.0, "farwrite": 1.5, "local": 1.5, "raw": 2.0}
OTHER_MEMORY_PER_SIZE = 2.5
"""Memory of a transport's servers, in tensors."""
TCP_MEMORY_PER_SIZE = 1.0
"""Additional memory over tcp, where the consumer's task has its own bytes."""
_START_SECONDS = 20.0
_SECONDS_OF_TURN = 0.12
"""Time of a turn of small steps, with its empty steps and the readings."""
_STEPS_OF_LARGE_TURN = 4
_SECONDS_PER_BYTE = 1.4e-9
"""Time of a large step of all transports together, on two processors."""
NOTES = (
    "A client in a third process runs the steps in sessions on two servers. added us: the time of a"
    " step minus the time of an empty step, which runs an operation in each task and moves no"
    " tensor. The empty step of the raw socket is an answer of one byte.",
    "The tensor is a variable, the same one in every step. It cannot rotate over cold memory as in"
    " bench p2p. Small tensors therefore stay in the caches, on every transport.",
    "of local: the step divided by the step of the same graph in one process. same control: the"
    " same, after the extra time of an empty step between two tasks is added to the step in one"
    " process.",
    f"parallel: {PARALLEL_TENSORS} tensors of {format_size(PARALLEL_BYTES)} at once. chain:"
    f" {CHAIN_HOPS} tensors of {CHAIN_BYTES} bytes, each computed from the one before.",
    "cpu ms: user and system time of a step, of all processes of the transport and of the client."
    " control: control calls of a step between tasks, over Farwrite + over gRPC; stock TensorFlow"
    " does not count them.",
    "of raw: the bandwidth divided by the bandwidth of one tuned socket with the same bytes in the"
    " same rounds.",
    "gRPC has TensorFlow's defaults: messages of up to 2 GB, no compression. On every transport a"
    " server has one thread per core, and graph optimizers are off, so that the graph runs as"
    " written.",
)


def memory_of(size: int, transports: Sequence[Transport], *, over_tcp: bool) -> float:
    """Return the memory of a run with a tensor of `size` bytes; the small cases need little."""
    return bool(size) * SPARE_BYTES + size * sum(
        MEMORY_PER_SIZE.get(each.key, OTHER_MEMORY_PER_SIZE)
        + (TCP_MEMORY_PER_SIZE if over_tcp and not each.stock else 0.0)
        for each in transports
        if not each.encoded or size < GRPC_LIMIT
    )


def expected_seconds(plan: TensorPlan) -> float:
    """Estimate the time of a run on two processors."""
    turns = plan.rounds * len(plan.transports) * _SECONDS_OF_TURN
    fewest = FEWEST_ROUNDS * _STEPS_OF_LARGE_TURN * _SECONDS_PER_BYTE
    return _START_SECONDS + sum(
        max(min(turns, plan.case_seconds), fewest * case.size) for case in plan.cases
    )


def plan(arguments: argparse.Namespace, record: Record) -> TensorPlan:
    """Make the plan from the options."""
    over_tcp = arguments.fabric == "tcp"
    chosen = arguments.transport or [key for key in TRANSPORTS if key != RAW.key or over_tcp]
    transports = tuple(each for key, each in TRANSPORTS.items() if key in chosen)
    consumers = {*arguments.consumer, *([CHAIN] if arguments.chain else [])}
    small = [case for consumer, case in SMALL_CASES.items() if consumer in consumers]
    of_tensors: list[Case] = []
    if sized := [consumer for consumer in CONSUMERS if consumer in consumers]:
        known = affordable(
            record,
            "a tensor",
            (*arguments.sizes, 0) if small else arguments.sizes,  # there are figures in any case
            lambda size: memory_of(size, transports, over_tcp=over_tcp),
        )
        of_tensors = [Case(consumer, size) for consumer in sized for size in known if size]
    encoded = [each.key for each in transports if each.encoded]
    if encoded and any(case.size >= GRPC_LIMIT for case in of_tensors):
        record.notes.append(
            f"{' and '.join(encoded)} are left out from {format_size(GRPC_LIMIT)} on:"
            " TensorFlow's encoding cannot have that size, and a step of stock gRPC would never end"
        )
    if RAW in transports:
        record.notes.append(tuning())
    cases = (*of_tensors, *small)
    return TensorPlan(transports, cases, arguments.rounds, arguments.seconds, arguments.fabric)


def measure(plan: TensorPlan, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`."""
    return {"rows": run(plan, progress, logs)}


def sentences(facts: Facts) -> Iterator[str]:
    """Compare Farwrite with the raw socket, where both were measured."""
    for row in rows_of(facts):
        share = row.get("of_raw")
        if share is None or row["transport"] != FARWRITE.key or row["size"] < RAW_TARGET_FROM:
            continue
        met = "" if share >= RAW_TARGET else ", missed"
        yield (
            f"{row['consumer']} {format_size(row['size'])}: {share:.2f} of the raw socket"
            f" (target {RAW_TARGET}{met})"
        )


def gains(facts: Facts) -> list[Gain]:
    """Compare what a tensor adds with stock gRPC, at every size."""
    return [
        Gain(
            f"tensor: {consumer}, {format_size(size)}",
            ratio,
            "stock gRPC",
            "the tensor is small" if size < 1 << 16 else "",
        )
        for consumer, size, ratio in ratios(facts, GRPC.key)
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain of each consumer."""
    return [
        card
        for consumer in CONSUMERS
        for card in largest(
            [gain for gain in gains(facts) if gain.case.startswith(f"tensor: {consumer},")],
            "less time added than over stock gRPC",
        )
    ]


def beside_grpc(facts: Facts) -> list[Row]:
    """Return the rows, each with ``of_grpc``, what it adds as a share of what stock gRPC adds."""
    stock = {
        (row["consumer"], row["size"]): row["added_us"]
        for row in facts["rows"]
        if row["transport"] == GRPC.key
    }
    return [{**row, "of_grpc": _share(row, stock)} for row in facts["rows"]]


def _share(row: Row, stock: dict[tuple[str, int], float | None]) -> float | None:
    grpc = stock.get((row["consumer"], row["size"]))
    if not grpc or row["added_us"] is None or row["transport"] in (LOCAL.key, RAW.key):
        return None
    return float(row["added_us"] / grpc)


def _drawn(facts: Facts) -> list[Row]:
    """Return the rows of a chart; a difference can be below zero, and an axis begins at 1 us."""
    return [
        {
            **row,
            "added_us": max(row["added_us"], 1.0),
            "added_us_ci": [max(each, 1.0) for each in row["added_us_ci"]],
        }
        for row in rows_of(facts)
    ]


def _chart(consumer: str) -> Chart:
    return BySize(
        f"Time that a tensor adds to a step: {consumer}",
        "added time",
        "added_us",
        series="transport",
        order=tuple(TRANSPORTS),
        where=lambda row: row["consumer"] == consumer,
        rows=_drawn,
        rounds="added_us_ci",
        write_y=duration,
    )


_SMALL = {PARALLEL: "20 tensors of 4 KiB at once", CHAIN: "20 dependent tensors of 256 B"}


def _sizes(text: str) -> tuple[int, ...]:
    wanted = sizes(text)
    if any(size % ELEMENT for size in wanted):
        raise argparse.ArgumentTypeError(f"{text}: use sizes that are multiples of {ELEMENT} bytes")
    return wanted


BENCHMARK = Benchmark(
    name="tensor",
    example="farwrite bench tensor --sizes 4K,64M",
    description="Measure how much time a tensor adds to a step of a TensorFlow session when another"
    " process uses it. slice takes one element of the tensor, reduce_max reads all of it. parallel"
    f" sends {PARALLEL_TENSORS} tensors of {format_size(PARALLEL_BYTES)} at once, and chain"
    f" {CHAIN_HOPS} dependent ones of {CHAIN_BYTES} bytes. Stock gRPC, Farwrite and the same graph"
    " in one process take turns. Needs TensorFlow.",
    title="One tensor between two tasks",
    needs=("tensorflow",),
    libraries=lambda plan: programs(plan.transports),
    options=(
        option.size_list(
            DEFAULT_SIZES,
            QUICK_SIZES,
            help="bytes of the tensor of slice and reduce_max; 0 leaves both out",
            kind=_sizes,
            metavar="4K,64M,...",
            shown="4K,64K,1M,16M,64M,256M,1G; --quick: 4K,1M,64M",
        ),
        option.Option(
            "--transport",
            "use only this one; may be given several times",
            choices=TRANSPORTS,
            many=True,
            shown="all, but raw only with --fabric tcp",
        ),
        option.FABRIC,
        option.chosen("--consumer", (*CONSUMERS, *SMALL_CASES)),
        option.Option(
            "--chain", "measure the chain in addition to the consumers that --consumer names"
        ),
        option.rounds(ROUNDS, quick=QUICK_ROUNDS),
        option.seconds(10),
    ),
    plan=plan,
    seconds=expected_seconds,
    measure=measure,
    settings=lambda plan: {"fabric": plan.fabric, "rounds": plan.rounds},
    settings_key="",
    summary=lambda plan: f"up to {plan.rounds} rounds, {fabric_in_words(plan.fabric)}",
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("consumer", "consumer"),
                Column("size", "size", format_size),
                Column("transport", "transport"),
                Column("fabric", "fabric"),
                Column("step ms", "step_ms", ".3f"),
                Column("empty ms", "empty_step_ms", ".3f"),
                Column("added us", "added_us", ".0f"),
                span("95 % interval", "added_us_ci", ".0f"),
                Column("of grpc", "of_grpc", ".3f"),
                Column("of local", "vs_local", ".2f"),
                Column("same control", "vs_local_same_control", ".2f"),
                Column("of raw", "of_raw", ".2f"),
                Column("copies", "copies", "g"),
                Column("cpu ms", "cpu_ms", ".2f"),
                Column("control", "control", write_control),
                Column("socket bytes", "socket_bytes", ".0f"),
            ),
            rows=beside_grpc,
            named=4,
        ),
    ),
    sentences=sentences,
    charts=(
        *map(_chart, CONSUMERS),
        Bars(
            "Time that many small tensors add to a step",
            lambda row: _SMALL[row["consumer"]],
            "added_us",
            "µs",
            series="transport",
            where=lambda row: row["consumer"] in _SMALL,
            rows=_drawn,
            rounds="added_us_ci",
        ),
    ),
    gains=gains,
    cards=cards,
)
