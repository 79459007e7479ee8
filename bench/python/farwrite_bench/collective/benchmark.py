"""``farwrite bench collective``: an all-reduce between two workers."""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.readings import spent
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, Transport, forced
from farwrite_bench.collective.worker import Join, Reduce, Reduced
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.options import positive
from farwrite_bench.ratio import rounded
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, rows_of

WORKERS = 2
ELEMENT = 4
TRANSPORTS = {transport.key: transport for transport in (GRPC, FARWRITE)}
WARM_UP_STEPS = 1
"""Steps before each turn, which are not measured."""
NOTE = (
    "A step is MultiWorkerMirroredStrategy's all_reduce of one float32 variable in a tf.function,"
    " by TensorFlow's ring. Its time is the time of the slower worker. GB/s: the variable's bytes"
    " divided by that time; each worker sends about as many bytes. cpu ms, copies, socket bytes and"
    " RPCs (RecvBuf calls) are per step, for both workers together. On both transports gRPC has"
    " TensorFlow's defaults, and a worker has one thread per core."
)
Turn = tuple[Reduced, ...]
"""The results of all workers in one turn."""


@dataclass(frozen=True)
class CollectivePlan:
    """A whole run."""

    elements: int
    """Of the variable, float32."""
    rounds: int
    steps: int
    """Steps of one turn."""
    fabric: str | None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""

    @property
    def size(self) -> int:
        """Bytes of the variable."""
        return self.elements * ELEMENT


def plan(arguments: argparse.Namespace, record: Record) -> CollectivePlan:
    """Make the plan from the options."""
    elements = max(int(arguments.megabytes * 2**20) // ELEMENT, 1)
    return CollectivePlan(elements, arguments.rounds, arguments.steps, arguments.fabric)


def measure(plan: CollectivePlan, progress: Progress, logs: Path) -> Facts:
    """Measure all rounds; the workers' output goes to `logs`.

    Raises
    ------
    PeerDead
        If a worker fails.
    """
    variables = forced(plan.fabric)
    with contextlib.ExitStack() as stack:
        workers = {
            key: stack.enter_context(_workers(transport, plan.elements, variables, logs))
            for key, transport in TRANSPORTS.items()
        }
        turns: dict[str, list[Turn]] = {key: [] for key in workers}
        for number in range(plan.rounds):
            for place, key in enumerate(workers if number % 2 == 0 else reversed(workers)):
                progress((number + place / len(workers)) / plan.rounds, key)
                turns[key].append(_turn(workers[key], Reduce(plan.steps, WARM_UP_STEPS)))
    return {"rows": _rows(plan.size, turns)}


@contextlib.contextmanager
def _workers(
    transport: Transport, elements: int, variables: dict[str, str], logs: Path
) -> Iterator[list[ForkedTask]]:
    addresses = tuple(free_addresses(WORKERS))
    with contextlib.ExitStack() as stack:
        tasks = [
            stack.enter_context(
                ForkedTask(
                    f"{transport.key} worker {index}",
                    "farwrite_bench.collective.worker",
                    {**transport.environment, **variables},
                    logs / f"{transport.key}-{index}.log",
                )
            )
            for index in range(WORKERS)
        ]
        for index, task in enumerate(tasks):
            task.send(Join(addresses, index, transport, elements))
        for task in tasks:
            task.receive()
        yield tasks


def _turn(tasks: Sequence[ForkedTask], order: Reduce) -> Turn:
    for task in tasks:
        task.send(order)
    answers = [task.receive() for task in tasks]
    reduced = tuple(answer for answer in answers if isinstance(answer, Reduced))
    if len(reduced) != len(answers):
        raise Internal(f"bench collective: unexpected answers of workers: {answers!r}; report this")
    return reduced


def _rows(size: int, turns: dict[str, list[Turn]]) -> list[dict[str, Any]]:
    # A step ends when the slower worker ends it.
    taken = {
        key: [
            [max(each) for each in zip(*(worker.seconds for worker in turn), strict=True)]
            for turn in rounds
        ]
        for key, rounds in turns.items()
    }
    rows = []
    for key, rounds in turns.items():
        totals = [spent([w.before for w in turn], [w.after for w in turn]) for turn in rounds]
        steps = sum(len(each) for each in taken[key])
        median = statistics.median(second for each in taken[key] for second in each)
        ratios = [
            statistics.median(ours) / statistics.median(stock)
            for ours, stock in zip(taken[key], taken[GRPC.key], strict=True)
        ]

        def a_step(
            name: str, totals: Sequence[dict[str, float]] = totals, steps: int = steps
        ) -> float:
            return sum(total.get(name, 0) for total in totals) / steps

        counted = not TRANSPORTS[key].stock
        rows.append(
            {
                "transport": key,
                "fabric": "/".join(
                    sorted({name for turn in rounds for w in turn for name in w.after.fabrics})
                )
                or None,
                "step_ms": round(median * 1e3, 4),
                "gb_s": round(size / median / 1e9, 3),
                "of_grpc": rounded(statistics.median(ratios)),
                "of_grpc_spread": [rounded(min(ratios)), rounded(max(ratios))],
                "cpu_ms": round(a_step("cpu_seconds") * 1e3, 3),
                "copies": a_step("copies") if counted else None,
                "rpcs": a_step("grpc_recv_buf_calls") if counted else None,
                "socket_bytes": round(a_step("socket_bytes"), 1),
                "steps": steps,
            }
        )
    return rows


def settings(plan: CollectivePlan) -> dict[str, Any]:
    """Return the choices of a run."""
    return {
        "bytes": plan.size,
        "rounds": plan.rounds,
        "steps": plan.steps,
        "fabric": plan.fabric,
    }


def summary(plan: CollectivePlan) -> str:
    """Say what a run does."""
    chosen = settings(plan).items()
    shown = ", ".join(f"{name} {value}" for name, value in chosen if value is not None)
    return f"all-reduce of {format_size(plan.size)} between {WORKERS} workers ({shown})"


def gains(facts: Facts) -> list[Gain]:
    """Compare Farwrite with stock gRPC."""
    size = format_size(facts["settings"]["bytes"])
    return [
        Gain(f"all-reduce of {size}", 1 / row["of_grpc"], "stock gRPC")
        for row in rows_of(facts)
        if row["transport"] != GRPC.key
    ]


BENCHMARK = Benchmark(
    name="collective",
    question="measure an all-reduce between two TensorFlow workers",
    example="farwrite bench collective --megabytes 64",
    description="Measure how long the all-reduce of a variable takes between two workers of a"
    " MultiWorkerMirroredStrategy. Stock gRPC and Farwrite take turns. Needs TensorFlow.",
    title="An all-reduce between two workers",
    needs=("tensorflow",),
    libraries=lambda _: (PLUGIN,),
    options=(
        option.Option("--megabytes", "size of the variable, in MiB", 64.0, kind=positive),
        option.rounds(7, quick=2),
        option.steps(5),
        option.FABRIC,
    ),
    plan=plan,
    measure=measure,
    summary=summary,
    settings=settings,
    notes=lambda _: (NOTE,),
    tables=(
        Table(
            (
                Column("transport", "transport"),
                Column("fabric", "fabric"),
                Column("step ms", "step_ms", ".4g"),
                Column("GB/s", "gb_s", ".2f"),
                Column("of grpc", "of_grpc", ".3f"),
                Column("cpu ms", "cpu_ms", ".4g"),
                Column("copies", "copies", "g"),
                Column("socket bytes", "socket_bytes", lambda value: format_size(int(value))),
                Column("RPCs", "rpcs", "g"),
            )
        ),
    ),
    charts=(
        Bars("Rate of an all-reduce", lambda _: "two workers", "gb_s", "GB/s", series="transport"),
    ),
    gains=gains,
    gain_of="faster than stock gRPC",
)
