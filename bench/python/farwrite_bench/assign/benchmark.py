"""``farwrite bench assign``: adds a worker's vector to a variable of a parameter server.

TensorFlow's users compare transports by this step in https://github.com/tensorflow/tensorflow/issues/4498
and https://github.com/tensorflow/tensorflow/issues/6116. The benchmark differs from their programs
in two points: all ways take turns in one run, and the session is on the worker, as in training.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import FailedPrecondition
from farwrite_bench.assign.graph import ASSIGN, ELEMENT, AssignCase
from farwrite_bench.cluster.group import in_turn
from farwrite_bench.cluster.readings import spent
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, fabric_in_words
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table, ratio, span, spread
from farwrite_bench.harness.memory import affordable
from farwrite_bench.ratio import ratio_of_rounds
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of
from farwrite_bench.tensor.cluster import Bench, RefusedError, bench
from farwrite_bench.tensor.plan import GRPC_LIMIT, LOCAL, SPARE_BYTES, Block, Case
from farwrite_bench.tensor.rows import fabric, median_ms
from farwrite_bench.tensor.run import WARM_UP_STEPS, block

MEGABYTE = 10**6
"""10^6 bytes, as in the issues, and not 2^20."""
SIZES = (10 * MEGABYTE, 100 * MEGABYTE, 400 * MEGABYTE)
QUICK_SIZES = (1 * MEGABYTE, 10 * MEGABYTE)
WAYS = {each.key: each for each in (LOCAL, GRPC, FARWRITE)}
MEMORY_PER_SIZE = 10.0
"""Memory of all ways together, in vectors: a vector and a variable each, gRPC's buffers, and the
initial values."""
MOVED = ("pushes_alias", "pushes_landed")
"""Counters of vectors that Farwrite moved: lent to the receiver, or written into its memory."""
NOTES = (
    "A step adds a worker's vector of int32 to a variable of the parameter server (TensorFlow's"
    " issues 4498 and 6116). GB/s: the bytes of a turn's steps divided by their time; 1 GB is 10^9"
    " bytes. local: vector and variable are in one process and one session, without a server.",
    "Figures are medians. Ratios compare turns of one round, and spread is the lowest and the"
    " highest round. empty ms: a step without a vector. cpu ms, tensors, RPCs, copies and socket"
    " bytes are per step, for all processes of the way together. tensors: vectors that Farwrite"
    " moved. RPCs: RecvTensor calls.",
    "The vector is the same in every step, so a small one may stay in the caches, on every way."
    " gRPC has TensorFlow's defaults. Every way has one thread per core and no graph optimizers.",
)


@dataclass(frozen=True)
class AssignPlan:
    """A whole run."""

    sizes: tuple[int, ...]
    """Bytes of the vector."""
    rounds: int
    """Rounds to measure. In each round each way has one turn."""
    steps: int
    """Steps of one turn."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""


def in_megabytes(size: int) -> str:
    """Format a size as the issues do."""
    return f"{size / MEGABYTE:g} MB"


def memory(size: int) -> float:
    """Return the memory that a size needs, in bytes."""
    return MEMORY_PER_SIZE * size + SPARE_BYTES


def plan(arguments: argparse.Namespace, record: Record) -> AssignPlan:
    """Make the plan from the options."""
    return AssignPlan(
        sizes=affordable(record, "a vector", arguments.megabytes, memory, in_megabytes),
        rounds=arguments.rounds,
        steps=arguments.steps,
        fabric=arguments.fabric,
    )


def measure(plan: AssignPlan, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`; the children's output goes to `logs`.

    Raises
    ------
    PeerDead
        If a process fails.
    FailedPrecondition
        If TensorFlow refuses a step, or Farwrite did not move every vector.
    """
    rows: list[Row] = []
    progress(0.0, "starting processes")
    with bench(tuple(WAYS.values()), logs, plan.fabric) as processes:
        for number, size in enumerate(plan.sizes):
            progress(number / len(plan.sizes), in_megabytes(size))
            load = os.getloadavg()[0]
            rows += make_rows(size, _blocks(plan, processes, Case(ASSIGN, size)), load)
    return {"rows": rows}


def _blocks(plan: AssignPlan, processes: Bench, case: Case) -> dict[str, list[Block]]:
    """Return each way's turns at one size."""
    blocks: dict[str, list[Block]] = {key: [] for key in WAYS}
    keys = list(WAYS)
    key = keys[0]
    try:
        for key in keys:
            processes.call("open", key, case, AssignCase)
        for number, key in in_turn(keys, plan.rounds):
            blocks[key].append(block(processes, key, plan.steps, number % 2 == 0))
        for key in keys:
            processes.call("close", key)
    except RefusedError as refusal:
        raise FailedPrecondition(
            f"bench assign: {in_megabytes(case.size)} over {WAYS[key].name}: {refusal}"
        ) from refusal
    return blocks


def make_rows(size: int, blocks: Mapping[str, Sequence[Block]], load: float) -> list[Row]:
    """Make the row of each way from its turns at one size.

    Raises
    ------
    FailedPrecondition
        If Farwrite did not move every vector.
    """
    rates = {key: [_rate(size, block) for block in turns] for key, turns in blocks.items()}
    return [_row(size, key, turns, rates, load) for key, turns in blocks.items()]


def _row(
    size: int,
    key: str,
    turns: Sequence[Block],
    rates: Mapping[str, Sequence[float]],
    load: float,
) -> Row:
    totals = [spent(block.before, block.after) for block in turns]
    total = {name: sum(each.get(name, 0) for each in totals) for name in set().union(*totals)}
    steps = sum(len(block.full) for block in turns)
    ours = not WAYS[key].stock
    if ours:
        require_moved(size, steps, total)
    last = turns[-1].after
    return {
        "way": key,
        "fabric": fabric(WAYS[key], [name for each in last for name in each.fabrics]),
        "size": size,
        "gb_s": round(statistics.median(rates[key]), 3),
        "gb_s_rounds": [round(rate, 3) for rate in rates[key]],
        "times_grpc": ratio_of_rounds(rates[key], rates[GRPC.key]),
        "of_local": ratio_of_rounds(rates[key], rates[LOCAL.key]),
        "step_ms": round(median_ms([block.full for block in turns]), 4),
        "empty_step_ms": round(median_ms([block.empty for block in turns]), 4),
        "cpu_ms": round(1e3 * total["cpu_seconds"] / steps, 3),
        "tensors": sum(total.get(name, 0) for name in MOVED) / steps if ours else None,
        "grpc_tensor_calls": total.get("grpc_recv_tensor_calls", 0) / steps if ours else None,
        "copies": total.get("copies", 0) / steps if ours else None,
        "socket_bytes": round(total["socket_bytes"] / steps, 1),
        "steps": steps,
        "rounds": len(turns),
        "load": round(load, 2),
    }


def require_moved(size: int, steps: int, total: Mapping[str, float]) -> None:
    """Check the counters of the steps over Farwrite.

    Raises
    ------
    FailedPrecondition
        If the plug-in moved fewer vectors than there were steps, or gRPC moved one.
    """
    moved = sum(total.get(name, 0) for name in MOVED)
    calls = total.get("grpc_recv_tensor_calls", 0)
    if moved >= steps and total.get("bytes_pushed", 0) >= steps * size and calls == 0:
        return
    reasons = ", ".join(
        f"{name} {value:g}" for name, value in sorted(total.items()) if "pulls_" in name and value
    )
    raise FailedPrecondition(
        f"bench assign: in {steps} steps with {in_megabytes(size)} Farwrite moved {moved:g} vectors"
        f" and gRPC moved {calls:g} ({reasons or 'no pull was counted'}), so the figures would not"
        " be Farwrite's; docs/reference/tensorflow.md explains the counters"
    )


def sentences(facts: Facts) -> list[str]:
    """Return one sentence for each size."""
    rows = rows_of(facts)
    gb_s = {(row["size"], row["way"]): row["gb_s"] for row in rows}
    return [
        f"{in_megabytes(row['size'])}: {row['gb_s']:.3g} GB/s over Farwrite,"
        f" {row['times_grpc']['median']:.3g} times the {gb_s[row['size'], GRPC.key]:.3g} GB/s over"
        f" stock gRPC, and {row['of_local']['median']:.2g} of the"
        f" {gb_s[row['size'], LOCAL.key]:.3g} GB/s in one process"
        for row in rows
        if row["way"] == FARWRITE.key
    ]


def _rate(size: int, block: Block) -> float:
    """Return the rate of one turn, in GB/s."""
    return size * len(block.full) / sum(block.full) / 1e9


def gains(facts: Facts) -> list[Gain]:
    """Compare Farwrite with stock gRPC, by size."""
    return [
        Gain(
            f"assign_add of {in_megabytes(row['size'])}", row["times_grpc"]["median"], "stock gRPC"
        )
        for row in rows_of(facts)
        if row["way"] == FARWRITE.key
    ]


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(round(float(part) * MEGABYTE) for part in text.split(",") if part)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of megabytes; use a list such as 10,100"
        ) from None
    if not sizes or any(size % ELEMENT or not 0 < size < GRPC_LIMIT for size in sizes):
        raise argparse.ArgumentTypeError(
            f"{text!r}: use sizes that are multiples of {ELEMENT} bytes and below {GRPC_LIMIT}"
            " bytes, the limit of stock gRPC"
        )
    return tuple(dict.fromkeys(sizes))


BENCHMARK = Benchmark(
    name="assign",
    question="measure adding to a variable of another TensorFlow task",
    example="farwrite bench assign --megabytes 10,100",
    description="Measure how many bytes per second assign_add adds to a variable of another task."
    " One process, stock gRPC and Farwrite take turns. This is the benchmark of TensorFlow's issues"
    " 4498 and 6116. Needs TensorFlow.",
    title="assign_add to a parameter server's variable",
    needs=("tensorflow",),
    libraries=lambda _: (PLUGIN,),
    options=(
        option.Option(
            "--megabytes",
            "sizes of the vector, in 10^6 bytes",
            SIZES,
            QUICK_SIZES,
            _sizes,
            "10,100,...",
            shown="10,100,400; --quick: 1,10",
        ),
        option.rounds(9, quick=2),
        option.steps(10),  # as in the program of the issues
        option.FABRIC,
    ),
    plan=plan,
    measure=measure,
    summary=lambda plan: (
        f"{', '.join(map(in_megabytes, plan.sizes))}, {plan.rounds} rounds of {plan.steps} steps"
        f" after {WARM_UP_STEPS} of warm-up, {fabric_in_words(plan.fabric)}"
    ),
    settings=lambda plan: {
        "sizes": plan.sizes,
        "rounds": plan.rounds,
        "steps": plan.steps,
        "warm_up_steps": WARM_UP_STEPS,
        "fabric": plan.fabric,
    },
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("size", "size", in_megabytes),
                Column("way", "way"),
                Column("fabric", "fabric"),
                Column("GB/s", "gb_s", ".3g"),
                span("spread", "gb_s_rounds", ".3g"),
                ratio("x grpc", "times_grpc", ".3g"),
                spread("spread", "times_grpc", ".3g"),
                ratio("of local", "of_local", ".2f"),
                Column("step ms", "step_ms", ".4g"),
                Column("empty ms", "empty_step_ms", ".3g"),
                Column("cpu ms", "cpu_ms", ".4g"),
                Column("tensors", "tensors", "g"),
                Column("RPCs", "grpc_tensor_calls", "g"),
                Column("copies", "copies", "g"),
                Column("socket bytes", "socket_bytes", ".0f"),
            )
        ),
    ),
    sentences=sentences,
    charts=(
        Bars(
            "Rate of assign_add",
            group=lambda row: in_megabytes(row["size"]),
            value="gb_s",
            unit="GB/s",
            rounds="gb_s_rounds",
        ),
    ),
    gains=gains,
    gain_of="rate of stock gRPC",
)
