"""``farwrite bench step``: small steps of four kinds of TensorFlow programs."""

from __future__ import annotations

import os
import statistics
from argparse import ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

from farwrite.errors import Internal
from farwrite_bench.cluster import ways
from farwrite_bench.cluster.busy import busy_cores
from farwrite_bench.cluster.group import Group, Take, Turn, totals
from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.readings import control_calls, write_control
from farwrite_bench.cluster.seat import Seat
from farwrite_bench.cluster.transport import CONTROL, FARWRITE, GRPC, fabric_in_words
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress, stage
from farwrite_bench.harness.chart import Bars
from farwrite_bench.harness.column import Column, Table, ratio, span, spread
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of
from farwrite_bench.step.programs import KINDS, Kind
from farwrite_bench.tensor.plan import LOCAL
from farwrite_bench.tensor.rows import fabric

CONTROL_OFF = replace(
    FARWRITE,
    key="control off",
    name="Farwrite, control calls over gRPC",
    environment={**FARWRITE.environment, CONTROL: "off"},
)
CONTROL_ON = replace(FARWRITE, key="control on")
WAYS = {each.key: each for each in (GRPC, CONTROL_OFF, CONTROL_ON, LOCAL)}
ROUNDS, QUICK_ROUNDS = 15, 2
KIND_SECONDS = 60.0
FEWEST_ROUNDS = 5
TURN_SECONDS = 0.4
"""About how long a turn takes on an idle machine."""
FEWEST_STEPS, MOST_STEPS = 10, 400
"""Limits of the steps of a turn."""
START_SECONDS = 20.0
"""About how long the processes of a kind take to start, on two cores."""
FIRST_STEPS = 40
"""Steps that are not measured: tracing, and the first meeting of two tasks."""
TRIED_STEPS = 10
"""Steps from whose time the steps of a turn follow."""
WARM_UP_STEPS = 3
"""Steps before each turn, which are not measured."""
NOTES = (
    "step ms: the median over the rounds of a turn's median step; spread is the lowest and the"
    " highest round. mean ms: the mean of all steps, which a busy core raises more than the median."
    " of grpc and of local compare turns of one round. cpu ms: user and system time"
    " of a step, of all processes of the way together. control: control calls of a step between"
    " tasks, over Farwrite + over gRPC; stock TensorFlow and control off do not count it.",
    "grpc: stock TensorFlow. control off and control on: Farwrite with FARWRITE_TF_CONTROL=off and"
    " on. local: the same step in one process, Python included.",
)


def expected_seconds(plan: Namespace) -> float:
    """Estimate the time of a run on two processors."""
    rounds = min(plan.rounds * len(plan.way) * TURN_SECONDS, plan.seconds)
    return len(plan.kind) * (START_SECONDS + float(rounds))


def plan(arguments: Namespace, record: Record) -> Namespace:
    """Order the kinds and the ways; the options are the plan."""
    arguments.kind = [key for key in KINDS if key in arguments.kind]
    arguments.way = [key for key in WAYS if key in arguments.way]
    return arguments


def measure(plan: Namespace, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`; the children's output goes to `logs`."""
    rows: list[Row] = []
    for number, key in enumerate(plan.kind):
        report = stage(progress, number, len(plan.kind))
        report(0.0, f"{key}: starting processes")
        folder = logs / key
        processes = {way: _way(KINDS[key], way) for way in plan.way}
        with ways.started(processes, plan.fabric, folder) as running:
            running.each(lambda _, group: group.seconds(Take(FIRST_STEPS)))
            load = os.getloadavg()[0]
            with busy_cores(plan.busy, folder):
                turns = _turns(plan, key, running, report)
            rows += make_rows(key, plan.busy, turns, load)
            rows += (
                {"kind": key, "way": way, "busy": plan.busy, "fabric": None, "error": reason}
                for way, reason in running.failed.items()
            )
    return {"rows": rows}


def _turns(
    plan: Namespace, kind: str, running: ways.Running, report: Progress
) -> dict[str, list[Turn]]:
    groups = running.groups
    seconds = running.each(lambda _, group: statistics.median(group.seconds(Take(TRIED_STEPS))))
    counts = {
        way: min(max(int(TURN_SECONDS / each), FEWEST_STEPS), MOST_STEPS)
        for way, each in seconds.items()
    }
    round_seconds = sum((WARM_UP_STEPS + counts[way]) * each for way, each in seconds.items())
    affordable = int(plan.seconds / max(round_seconds, 1e-6))
    rounds = min(plan.rounds, max(affordable, FEWEST_ROUNDS))
    turns: dict[str, list[Turn]] = {way: [] for way in groups}
    for number, way in running.in_turn(rounds):
        report((number + 0.5) / (rounds + 0.5), f"{kind}: {way}")
        with running.trying(way):
            groups[way].seconds(Take(WARM_UP_STEPS))
            turns[way].append(groups[way].turn(Take(counts[way])))

    def check(way: str, group: Group) -> None:
        taken = FIRST_STEPS + TRIED_STEPS + rounds * (WARM_UP_STEPS + counts[way])
        if (found := group.client.ask(methodcaller("count"))) != taken:
            raise Internal(
                f"bench step: {kind} over {WAYS[way].name}: after {taken} steps the program"
                f" counts {found}; report this"
            )

    running.each(check)
    return running.only(turns)


def _way(kind: Kind, key: str) -> ways.Way:
    """Return the processes of one way; one alone has no cluster."""
    transport = WAYS[key]
    jobs = () if key == LOCAL.key else (*kind.servers, kind.client)
    cluster = ways.addresses(*jobs)
    seat = Seat(cluster, kind.client, 0, transport, ways.THREADS)
    return ways.Way(transport, cluster, jobs[:-1], kind.build, (seat,), transport)


def make_rows(kind: str, busy: int, turns: Mapping[str, Sequence[Turn]], load: float) -> list[Row]:
    """Make the row of each way. A ratio is null without the way that it compares with."""
    medians = ways.medians_ms(turns)
    rows = []
    for way, of_way in turns.items():
        steps = ways.steps_of(of_way)
        control = control_calls(totals(of_way), steps) if WAYS[way].carries_control else None
        rows.append(
            {
                "kind": kind,
                "way": way,
                "busy": busy,
                "fabric": fabric(
                    WAYS[way], [name for each in of_way[-1].after for name in each.fabrics]
                ),
                "step_ms": round(statistics.median(medians[way]), 4),
                "mean_ms": round(1e3 * sum(sum(turn.seconds) for turn in of_way) / steps, 4),
                "step_ms_rounds": [round(each, 4) for each in medians[way]],
                "of_grpc": ways.compared(medians, way, GRPC.key),
                "of_local": ways.compared(medians, way, LOCAL.key),
                "control": control,
                **ways.spent_in(of_way, load),
            }
        )
    return rows


def gains(facts: Facts) -> list[Gain]:
    """Compare the steps over Farwrite with stock gRPC."""
    return [
        Gain(
            f"small step: {row['kind']}, {row['way']}",
            1 / row["of_grpc"]["median"],
            "stock gRPC",
            "gRPC carries the control calls" if row["way"] == CONTROL_OFF.key else "",
        )
        for row in rows_of(facts)
        if row["way"].startswith("control") and row["of_grpc"]
    ]


def _cores(text: str) -> int:
    most = len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) > most:
        raise ArgumentTypeError(
            f"{text!r} is not a number of cores; use 0 to {most}, the cores of this machine"
        )
    return int(text)


def _group(row: Row) -> str:
    busy = f", {row['busy']} cores busy" if row["busy"] else ""
    return f"{row['kind']}{busy}"


BENCHMARK = Benchmark(
    name="step",
    description="Measure how long a small step takes, and what it costs in processor time and"
    " control calls: a v1 session, a TF2 function over two tasks, a function that a coordinator"
    " schedules, and an eager operation on another task. Stock gRPC, Farwrite without and with"
    " control calls, and one process take turns. Needs TensorFlow.",
    title="Small steps: what control calls cost",
    needs=("tensorflow",),
    libraries=lambda plan: programs([WAYS[key] for key in plan.way]),
    options=(
        option.chosen("--kind", KINDS),
        option.chosen("--way", WAYS),
        option.Option(
            "--busy",
            "keep N cores busy while the steps run, with one process on each",
            0,
            kind=_cores,
        ),
        option.rounds(ROUNDS, quick=QUICK_ROUNDS),
        option.seconds(KIND_SECONDS),
        option.FABRIC,
    ),
    plan=plan,
    seconds=expected_seconds,
    measure=measure,
    summary=lambda plan: (
        f"cores kept busy: {plan.busy}, up to {plan.rounds} rounds, {fabric_in_words(plan.fabric)}"
    ),
    settings=lambda plan: {"rounds": plan.rounds, "busy": plan.busy, "fabric": plan.fabric},
    notes=lambda plan: (*(f"{key}: {KINDS[key].step}." for key in plan.kind), *NOTES),
    tables=(
        Table(
            (
                Column("kind", "kind"),
                Column("way", "way"),
                Column("fabric", "fabric"),
                Column("step ms", "step_ms", ".3f"),
                span("spread", "step_ms_rounds", ".3f"),
                Column("mean ms", "mean_ms", ".3f"),
                ratio("of grpc", "of_grpc", ".2f"),
                spread("spread", "of_grpc", ".2f"),
                ratio("of local", "of_local", ".1f"),
                Column("cpu ms", "cpu_ms", ".3f"),
                Column("control", "control", write_control),
                Column("socket bytes", "socket_bytes", ".0f"),
            ),
            named=2,
        ),
    ),
    charts=(
        Bars(
            "Median time of a small step",
            _group,
            "step_ms",
            "ms",
            rounds="step_ms_rounds",
            colours={CONTROL_OFF.key: "staged", CONTROL_ON.key: "farwrite"},
            names={
                GRPC.key: "stock gRPC",
                CONTROL_OFF.key: "Farwrite, control calls over gRPC",
                CONTROL_ON.key: "Farwrite",
                LOCAL.key: "one process",
            },
        ),
    ),
    gains=gains,
    gain_of="faster than stock gRPC",
)
