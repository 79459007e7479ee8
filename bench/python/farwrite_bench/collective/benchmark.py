"""``farwrite bench collective``: an all-reduce between two workers."""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farwrite.units import format_size
from farwrite_bench.cluster import ways
from farwrite_bench.cluster.forked import ForkedTask
from farwrite_bench.cluster.group import Take, Turn, in_turn, totals
from farwrite_bench.cluster.process import free_addresses
from farwrite_bench.cluster.seat import Seat, Threads
from farwrite_bench.cluster.transport import FARWRITE, GRPC, PLUGIN, Transport, forced
from farwrite_bench.failure import Crew, noting
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.options import positive
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of

WORKERS = 2
ELEMENT = 4
TRANSPORTS = {transport.key: transport for transport in (GRPC, FARWRITE)}
NOTE = (
    "A step is MultiWorkerMirroredStrategy's all_reduce of one float32 variable in a tf.function,"
    " by TensorFlow's ring. Its time is the time of the slower worker. GB/s: the variable's bytes"
    " divided by that time; each worker sends about as many bytes. cpu ms, copies, socket bytes and"
    " RPCs (RecvBuf calls) are per step, for both workers together. On both transports gRPC has"
    " TensorFlow's defaults, and a worker has one thread per core."
)
Turns = list[Turn]
"""The turn of each worker in one round."""


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
    """Measure all rounds; the workers' output goes to `logs`."""
    variables = forced(plan.fabric)
    failed: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        workers: dict[str, Crew[list[ForkedTask]]] = {}
        for key, transport in TRANSPORTS.items():
            start = functools.partial(_workers, transport, plan.elements, variables, logs)
            workers[key] = stack.enter_context(Crew(start))
            with noting(failed, key):
                workers[key].members()
        turns: dict[str, list[Turns]] = {key: [] for key in workers}
        for number, key in in_turn([*workers], plan.rounds):
            if key not in failed:
                progress(number / plan.rounds, key)
                with noting(failed, key):
                    turns[key].append(_turns(workers[key].members(), Take(plan.steps)))
                if key in failed:
                    workers[key].end()
    measured = {key: of_key for key, of_key in turns.items() if key not in failed}
    rows = _rows(plan.size, measured)
    return {"rows": rows + [{"transport": key, "error": why} for key, why in failed.items()]}


@contextlib.contextmanager
def _workers(
    transport: Transport, elements: int, variables: dict[str, str], logs: Path
) -> Iterator[list[ForkedTask]]:
    cluster = {"worker": free_addresses(WORKERS)}
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
            task.send((Seat(cluster, "worker", index, transport, Threads()), elements))
        for task in tasks:
            task.receive()
        yield tasks


def _turns(tasks: Sequence[ForkedTask], order: Take) -> Turns:
    for task in tasks:
        task.send(order)
    return [turn for task in tasks if isinstance(turn := task.receive(), Turn)]


def _rows(size: int, turns: dict[str, list[Turns]]) -> list[Row]:
    # A step ends when the slower worker ends it.
    taken = {
        key: [
            [max(each) for each in zip(*(worker.seconds for worker in workers), strict=True)]
            for workers in rounds
        ]
        for key, rounds in turns.items()
    }
    medians = {key: [statistics.median(each) for each in rounds] for key, rounds in taken.items()}
    rows = []
    for key, rounds in turns.items():
        total = totals([worker for workers in rounds for worker in workers])
        fabrics = {name for workers in rounds for w in workers for name in w.after[0].fabrics}
        steps = sum(map(len, taken[key]))
        median = statistics.median(second for each in taken[key] for second in each)
        of_grpc = ways.compared(medians, key, GRPC.key)
        counted = not TRANSPORTS[key].stock
        rows.append(
            {
                "transport": key,
                "fabric": "/".join(sorted(fabrics)) or None,
                "step_ms": round(median * 1e3, 4),
                "gb_s": round(size / median / 1e9, 3),
                "of_grpc": of_grpc and of_grpc["median"],
                "of_grpc_spread": of_grpc and [of_grpc["low"], of_grpc["high"]],
                "cpu_ms": round(total["cpu_seconds"] / steps * 1e3, 3),
                "copies": total.get("copies", 0) / steps if counted else None,
                "rpcs": total.get("grpc_recv_buf_calls", 0) / steps if counted else None,
                "socket_bytes": round(total["socket_bytes"] / steps, 1),
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
        if row["transport"] != GRPC.key and row["of_grpc"] is not None
    ]


BENCHMARK = Benchmark(
    name="collective",
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
