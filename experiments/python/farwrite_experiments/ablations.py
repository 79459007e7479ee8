"""``farwrite bench ablations``: what each part of the design gains."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench.cluster.transport import CONTROL, FARWRITE, GRPC, PLUGIN, Transport
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table, span
from farwrite_bench.harness.option import chosen, rounds, seconds
from farwrite_bench.memory import COPIES, MemoryPlan, copies, copy_chart
from farwrite_bench.record import Record
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Facts, Gain, Row, figure, rows_of
from farwrite_bench.sizes import KIB, MIB
from farwrite_bench.tensor.benchmark import beside_grpc
from farwrite_bench.tensor.plan import (
    CHAIN,
    LOCAL,
    PARALLEL,
    PARALLEL_TENSORS,
    SLICE,
    SMALL_CASES,
    Case,
    TensorPlan,
)
from farwrite_bench.tensor.run import run
from farwrite_experiments.network import NETWORK, NETWORK_BYTES, NetworkCase


def _ours(
    key: str, name: str, fabric: str, policy: str, landing: str = "on", control: str = "on"
) -> Transport:
    return Transport(
        key,
        name,
        FARWRITE.protocol,
        {
            "FARWRITE_FABRICS": fabric,
            "FARWRITE_TF_ALLOCATION": policy,
            "FARWRITE_TF_LANDING": landing,
            CONTROL: control,
        },
        FARWRITE.module,
    )


ABLATIONS = {
    each.key: each
    for each in (
        GRPC,
        _ours("request+copy", "tcp: on request, staged", "tcp", "off", "off"),
        _ours("request", "tcp: on request, not copied", "tcp", "unified", "off"),
        _ours("push", "tcp: pushed into the receiver's memory", "tcp", "unified"),
        _ours("shm off", "shm: lent, staged", "shm", "off"),
        _ours("shm traced", "shm: lent, traced sites", "shm", "traced"),
        _ours("shm unified", "shm: lent", "shm", "unified"),
        _ours("control off", "shm: lent, control calls over gRPC", "shm", "unified", control="off"),
        LOCAL,
    )
}
"""The ways of ``bench ablations``: with and without each part of the design."""
SMALL = 4 * KIB
MEMORY_PER_WAY = 5.0
"""Memory of one way's servers, in networks: variables, gradients, and slots for both."""
SPARE_BYTES = 5 * 2**30
OTHERS = (GRPC.key, LOCAL.key)
CASES = {
    NETWORK: "AlexNet's variables and gradients",
    SLICE: "One tensor of 4 KiB",
    PARALLEL: "20 tensors of 4 KiB at once",
    CHAIN: "20 dependent tensors of 256 B",
}
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


@dataclass(frozen=True)
class Whole:
    """A run: tensors over each way, and copies."""

    tensors: TensorPlan
    copies: MemoryPlan


def plan(arguments: argparse.Namespace, record: Record) -> Whole:
    """Make the plan from the options."""
    quick = arguments.quick
    ways = tuple(way for key, way in ABLATIONS.items() if key in arguments.way)
    size = affordable(memory_available(), len(ways)) // (64 if quick else 1)
    if size < NETWORK_BYTES and not quick:
        record.notes.append(
            f"the available memory does not allow the whole network; measuring {format_size(size)}"
            " of it"
        )
    cases = (Case(NETWORK, size), Case(SLICE, SMALL), *SMALL_CASES.values())
    graphs = {NETWORK: NetworkCase}
    return Whole(
        TensorPlan(ways, cases, arguments.rounds, arguments.seconds, graphs=graphs),
        MemoryPlan.quick() if quick else MemoryPlan.full(),
    )


def measure(plan: Whole, progress: Progress, logs: Path) -> Facts:
    """Measure all ways in turn, then the copies."""
    rows = run(plan.tensors, progress, logs)
    return {
        "network_bytes": plan.tensors.cases[0].size,
        "rows": rows,
        "registrations": [
            _registrations(row)
            for row in rows
            if row["consumer"] == NETWORK and row["error"] is None
        ],
        "copies": copies(plan.copies),
    }


def _registrations(row: Row) -> Row:
    """Count the registrations and the tensors moved, per step."""
    counters = row.get("counters") or {}
    moved = ("pushes_alias", "pushes_landed", "pushes_inline")
    return {
        "way": row["transport"],
        "transfers_a_step": sum(counters.get(name, 0) for name in moved),
        "registrations_a_step": counters.get("registrations", 0),
        "refused_by_arena": counters.get("arena_refusals", 0),
    }


def affordable(available: int, ways: int) -> int:
    """Return how many bytes of variables `ways` ways can hold at once in `available` bytes."""
    return max(min(NETWORK_BYTES, int((available - SPARE_BYTES) / (MEMORY_PER_WAY * ways))), MIB)


def sentences(facts: Facts) -> Iterator[str]:
    """Compare small tensors, and count registrations."""
    yield from _small_tensors(facts["rows"])
    for each in facts["registrations"]:
        if each["way"] not in OTHERS:
            yield (
                f"{each['way']}: {each['transfers_a_step']:g} tensors and"
                f" {each['registrations_a_step']:g} registrations per step"
            )


def _small_tensors(rows: Sequence[Row]) -> Iterator[str]:
    """Compare small tensors with stock gRPC, both minus the time of the graph in one process."""
    added = {(row["consumer"], row["transport"]): row["added_us"] for row in rows}
    for consumer, what, target in (
        (SLICE, "one 4 KiB tensor", 0.5),
        (PARALLEL, f"each of {PARALLEL_TENSORS} 4 KiB tensors", 0.2),
    ):
        local = added.get((consumer, LOCAL.key))
        if local is None:
            continue
        stock = added.get((consumer, GRPC.key))
        shares = [
            f"{key} {(taken - local) / (stock - local):.2f}"
            for key in ABLATIONS
            if stock and key not in OTHERS and (taken := added.get((consumer, key)))
        ]
        if shares:
            yield (
                f"{what}: share of the time that stock gRPC adds (target {target}):"
                f" {', '.join(shares)}"
            )


def figures(facts: Facts) -> list[str]:
    """Draw the time that each case adds, by way, and the throughput of copies."""
    drawn = []
    for case, what in CASES.items():
        mine = [row for row in rows_of(facts) if row["consumer"] == case]
        if mine:
            groups = [Group(row["transport"], [_bar(row)]) for row in mine]
            drawn.append(bars(f"{what}: time added to a step", groups))
    return [*drawn, copy_chart(facts["copies"])]


def _bar(row: Row) -> Bar:
    key = row["transport"] if row["transport"] in OTHERS else "farwrite"
    name = {"grpc": "stock gRPC", "local": "one process"}.get(key, "Farwrite")
    value = max(row["added_us"], 0.0) / 1e3
    low, high = (max(end, 0.0) / 1e3 for end in row["added_us_ci"])
    return Bar(key, name, value, f"{figure(value)} ms", (low, high))


def gains(facts: Facts) -> list[Gain]:
    """Compare the time that every way adds with stock gRPC."""
    return [
        Gain(
            f"ablations: {CASES.get(row['consumer'], row['consumer'])}, {row['transport']}",
            1 / row["of_grpc"],
            "stock gRPC",
            "a part of the design is off" if row["transport"] != "shm unified" else "",
        )
        for row in _beside_stock(facts)
        if row["of_grpc"] is not None and row["of_grpc"] > 0
    ]


def _beside_stock(facts: Facts) -> list[Row]:
    """Return the rows, with the time that each adds as a share of what stock gRPC adds."""
    return [
        {**row, "of_grpc": None if row["transport"] in OTHERS else row["of_grpc"]}
        for row in beside_grpc(facts)
    ]


def _counted(head: str, *names: str) -> Column:
    """Make the column of a sum of counters, which only Farwrite's ways have."""

    def total(row: Row) -> float | None:
        counted = row["transport"] not in OTHERS
        return sum(row["counters"].get(name, 0) for name in names) if counted else None

    return Column(head, total, "g")


BENCHMARK = Benchmark(
    name="ablations",
    description="Measure the step time of a communication-bound network and of small tensors in"
    " several ways: over stock gRPC; on request, with and without a copy at the sender; pushed"
    " into the receiver's memory; with each allocation policy. Also count registrations, and"
    " measure the throughput of copies by size. Needs TensorFlow.",
    title="Ablations: what each part of the design gains",
    needs=("tensorflow",),
    libraries=lambda _: (PLUGIN,),
    options=(chosen("--way", ABLATIONS), rounds(25, quick=5), seconds(30.0, quick=1.0)),
    plan=plan,
    measure=measure,
    summary=lambda plan: f"at most {plan.tensors.rounds} rounds",
    settings=lambda _: {},
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("case", lambda r: "small" if r["consumer"] == SLICE else r["consumer"]),
                Column("way", "transport"),
                Column("fabric", "fabric"),
                Column("step ms", "step_ms", ".3f"),
                Column("added us", "added_us", ".0f"),
                span("95 % interval", "added_us_ci", ".0f"),
                Column("of grpc", "of_grpc", ".3f"),
                _counted("requests", "offers_read", "grpc_recv_tensor_calls"),
                _counted("allocations", "read_allocations"),
                _counted("copies", "copies"),
                _counted("landed", "pushes_landed"),
                _counted("lent", "pushes_alias"),
                Column("cpu ms", "cpu_ms", ".1f"),
            ),
            "Ablations",
            _beside_stock,
            named=3,
        ),
        Table(
            (
                Column("way", "way"),
                Column("tensors a step", "transfers_a_step", "g"),
                Column("registrations a step", "registrations_a_step", "g"),
                Column("refused by the arena", "refused_by_arena", "g"),
            ),
            "Registrations, whole network",
            lambda facts: facts["registrations"],
        ),
        COPIES,
    ),
    sentences=sentences,
    charts=(figures,),
    gains=gains,
)
