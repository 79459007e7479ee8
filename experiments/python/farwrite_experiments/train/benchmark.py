"""``farwrite bench train``: the papers' networks, trained over each transport in turn."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from farwrite.errors import InvalidArgument
from farwrite.info import memory_available
from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import NOTHING, Column, Table, span
from farwrite_bench.harness.option import Option, chosen, rounds
from farwrite_bench.options import count, counts
from farwrite_bench.record import Record
from farwrite_bench.report.parts import HELPS_FROM, Card, Facts, Gain, figure, without_failures
from farwrite_bench.table import times
from farwrite_experiments.library import MODULE
from farwrite_experiments.networks.network import NETWORKS, name_of
from farwrite_experiments.train.charts import FARWRITE, RPC, STAGED, by_network, figures, measured
from farwrite_experiments.train.groups import cases, expected_seconds, groups
from farwrite_experiments.train.pace import FULL, QUICK, SHORT, Pace
from farwrite_experiments.train.plan import (
    DATA,
    EMULATED,
    FABRICS,
    MODES,
    REAL,
    TRANSPORTS,
    TrainPlan,
    ways,
)
from farwrite_experiments.train.resume import earlier, remaining, repeats
from farwrite_experiments.train.rows import CASE, Row, gain, least, ratio_text
from farwrite_experiments.train.run import run

MALLOC_WORDS = "malloc, for every way: " + ", ".join(f"{k}={v}" for k, v in MALLOC.items())
NOTES = (
    "comm ms: the step less the step of the same graph in one process (local), which has the same"
    " computation and the same updates: the communication that nothing hides. Each way is compared"
    " with local in the same round. The interval has the median in 95 of 100 cases (sign test); of"
    " fewer than six rounds it is their range, which is less certain.",
    "less: how many times less communication than stock gRPC. After 'at least' it is the lowest of"
    " stock's interval over the highest of this way's, or over half of its width, because this"
    " way's interval reaches 0.",
    "x: throughput over stock gRPC's in the same rounds. copies, registrations, requests: of a"
    " step, in all processes; stock TensorFlow does not count them. Of workers that do not wait for"
    " each other, a step is the mean of the slowest one's steps.",
    "emulated computation: each layer takes its share of the paper's time for a sample and holds no"
    " thread meanwhile. It reads every variable that arrived and writes every gradient anew."
    " Variables, transfers and updates are real.",
    "rpc-over-fabric: RecvTensor by request and reply, serialized by TensorFlow's own encoding,"
    " through private registered buffers of the same fabric, and copied out again. staged: Farwrite"
    " with one copy at the sender. It and farwrite carry control calls; gRPC carries those of"
    " grpc and rpc-over-fabric.",
    f"{MALLOC_WORDS}. gRPC: TensorFlow's defaults. Graph optimizers are off, and a process has one"
    " thread per core; the process of local has as many threads as the processes of another way"
    " together.",
)


def plan(arguments: argparse.Namespace, record: Record) -> TrainPlan:
    """Make the plan from the options."""
    if arguments.full and arguments.quick:
        raise InvalidArgument("bench train: --full and --quick exclude each other; leave one out")
    pace = FULL if arguments.full else QUICK if arguments.quick else SHORT
    pace = Pace(
        arguments.rounds or pace.rounds,
        arguments.steps or pace.steps,
        pace.batches,
        0.0 if arguments.rounds else pace.case_seconds,
    )
    wanted = cases(arguments, pace)
    made = ways(arguments.transport or list(TRANSPORTS), arguments.fabric)
    settings = {
        "rounds": pace.rounds,
        "steps": pace.steps,
        "compute": sorted({case.compute for case in wanted}),
        "batches": sorted({case.batch for case in wanted}),
        "servers": arguments.servers,
        "workers": list(arguments.workers),
        "full": arguments.full,
        "malloc": MALLOC,
    }
    file = arguments.json if arguments.full else None
    known = earlier("train", file, settings, record.machine, ("rows", "notes"))
    rows = without_failures(known.get("rows", ()))  # what failed is measured again
    record.notes += [n for n in known.get("notes", ()) if n not in (*record.notes, *NOTES)]
    divided = groups(wanted, made, memory_available())
    return TrainPlan(remaining(divided, rows), pace, settings, rows)


def measure(plan: TrainPlan, progress: Progress, logs: Path) -> Iterator[Facts]:
    """Measure each group, and yield the rows so far."""
    rows = list(plan.rows)
    for more in run(plan, progress, logs):
        known = without_failures(rows)
        rows.extend([{**row, "repeated": repeats(row, known)} for row in more])
        yield {"rows": rows}
    yield {"rows": rows}


def sentences(facts: Facts) -> Iterator[str]:
    """Compare Farwrite with rpc-over-fabric and with one sender copy, over the same fabric."""
    rows = facts["rows"]
    for row in (row for row in rows if row["transport"] == FARWRITE):
        same = [each for each in rows if all(each[key] == row[key] for key in (*CASE, "fabric"))]
        for other, what in ((RPC, "rpc-over-fabric"), (STAGED, "one copy")):
            beside = next((each for each in same if each["transport"] == other), None)
            if beside is not None and (ratio := gain(row, beside)) is not None:
                yield (
                    f"{name_of(row['model'])}, {row['servers']}+{row['workers']}, batch"
                    f" {row['batch']}, {row['fabric']}: Farwrite trains {100 * (ratio - 1):+.0f} %"
                    f" samples/s against {what}."
                )


def gains(facts: Facts) -> list[Gain]:
    """Compare the throughput of every row of Farwrite with stock gRPC's."""
    return [
        Gain(
            f"training {name}, batch {row['batch']}, {row['fabric']}",
            float(row["speedup"]),
            "stock gRPC",
            _share(row),
        )
        for name, of_it in by_network(measured(facts))
        for row in of_it
        if row["transport"] == FARWRITE and row["speedup"] is not None
    ]


def _share(row: Row) -> str:
    if row["compute_ms"] is None or not row["step_ms"]:
        return ""
    return f"computation is {min(row['compute_ms'] / row['step_ms'], 1.0):.0%} of the step"


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gains beside stock gRPC."""
    ours = [row for row in measured(facts) if row["transport"] == FARWRITE]
    found: list[Card] = []
    if gaining := [row for row in ours if row["speedup"] is not None]:
        best = max(gaining, key=lambda row: float(row["speedup"]))
        found.append((times(best["speedup"]), f"throughput of stock gRPC, {_case(best)}"))
    if exposing := [row for row in ours if row["of_grpc"] is not None]:
        best = max(exposing, key=lambda row: least(row["of_grpc"]))
        if least(best["of_grpc"]) >= HELPS_FROM:
            what = f"less exposed communication than stock gRPC, {_case(best)}"
            found.append((ratio_text(best["of_grpc"]), what))
    if copies := [n for row in ours if (n := row["copies_per_step"]) is not None]:
        found.append((figure(max(copies)), "copies of a tensor in a training step, at most"))
    return found


def _case(row: Row) -> str:
    return f"{name_of(row['model'])}, batch {row['batch']}, {row['fabric']}"


def _model(row: Row) -> str:
    mode = "" if row["mode"] == DATA else f", {row['mode']}"
    way = "" if row["sync"] else ", async"
    return f"{row['model']}{mode}{way}, {row['servers']}+{row['workers']}"


def _ends(ratio: Row) -> str:
    ends = ratio["low"], ratio["high"]
    return NOTHING if ratio["high"] is None else " to ".join(map(times, ends))


BENCHMARK = Benchmark(
    name="train",
    example="farwrite bench train --model vgg16 --workers 2",
    description="Train the papers' networks with parameter servers and workers in processes of"
    " their own, with synthetic data. All transports take turns with the same graph in one process,"
    " so that the time of communication can be told from computation. Needs TensorFlow.",
    title="Training: throughput by batch size, and what Farwrite gains",
    needs=("tensorflow",),
    libraries=lambda plan: [
        *programs([way.transport for group in plan.groups for way in group.ways]),
        MODULE,
    ],
    options=(
        chosen("--model", NETWORKS, "the six of the paper", filled=False),
        chosen("--transport", TRANSPORTS, filled=False),
        chosen("--fabric", FABRICS, "shm, and tcp for farwrite", filled=False),
        Option(
            "--compute",
            f"whether layers compute, or take the paper's time (default: {EMULATED}; mnist_mlp:"
            f" {REAL})",
            choices=(EMULATED, REAL),
        ),
        Option(
            "--batch",
            "samples of a worker's step (default: 8; mnist_mlp: 100; --full: 1 to 128)",
            kind=counts,
            metavar="N,N...",
        ),
        Option("--workers", "workers", (2,), kind=counts, metavar="N,N...", shown="2"),
        Option("--servers", "parameter servers", 1, kind=count),
        Option(
            "--mode",
            "data: parameter servers; model: two workers have half of the model each; mirrored:"
            " MultiWorkerMirroredStrategy",
            DATA,
            choices=MODES,
        ),
        Option("--asynchronous", "let every worker step by itself (mnist_mlp always does)"),
        rounds(None, None, f"{SHORT.rounds}; --quick: {QUICK.rounds}"),
        Option(
            "--steps",
            "steps of one turn",
            kind=count,
            shown=f"{SHORT.steps}; --quick: {QUICK.steps}",
        ),
        Option(
            "--full",
            f"the paper's method: {FULL.rounds} rounds of {FULL.steps} steps, batches 1 to 128;"
            " hours. With --json, a later run continues an interrupted one",
        ),
    ),
    plan=plan,
    measure=measure,
    seconds=expected_seconds,
    summary=lambda plan: f"at least {plan.pace.rounds} rounds of {plan.pace.steps} steps",
    settings=lambda plan: plan.settings,
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("model", _model),
                Column("batch", "batch"),
                Column("transport", "transport"),
                Column("fabric", "fabric"),
                Column("step ms", "step_ms", ".1f"),
                Column("compute ms", "compute_ms", ".3g"),
                Column("comm ms", "comm_ms", ".1f"),
                span("95 % interval", "comm_ms_ci", ".1f"),
                Column("less", "of_grpc", ratio_text),
                Column("interval", "of_grpc", _ends),
                Column("samples/s", "samples_s", ".1f"),
                Column("x", "speedup", ".3g"),
                Column("copies", "copies_per_step", ".3g"),
                Column("registrations", "registrations_per_step", ".3g"),
                Column("requests", "requests_per_step", ".3g"),
                Column("cpu s", "cpu_s_per_step", ".3f"),
                Column("socket MB", lambda row: row["socket_bytes_per_step"] / 1e6, ".1f"),
            ),
            named=4,
        ),
    ),
    sentences=sentences,
    charts=(figures,),
    gains=gains,
    cards=cards,
)
