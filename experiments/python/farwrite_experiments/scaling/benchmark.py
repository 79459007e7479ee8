"""``farwrite bench scaling``: the papers' networks on more and more machines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from farwrite_bench.cluster.plugin import programs
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import FARWRITE, GRPC, STAGED
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.harness.option import Option, chosen, rounds
from farwrite_bench.options import count, counts
from farwrite_bench.record import Record
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Facts, Gain, Row, rows_of
from farwrite_experiments.capacity.calibrate import QUICK_ROUNDS, ROUNDS
from farwrite_experiments.capacity.costs import read_costs
from farwrite_experiments.cluster.link import Link, parse_link
from farwrite_experiments.cluster.machines import OWN, shaped_by, why_no_namespaces
from farwrite_experiments.library import MODULE
from farwrite_experiments.networks.network import INCEPTION_V3, LSTM, SIX, VGG16, name_of
from farwrite_experiments.scaling.run import BUSY, Point, ScalingPlan, calibration, run
from farwrite_experiments.train.charts import NAMES
from farwrite_experiments.train.pace import FIRST_STEPS, Pace
from farwrite_experiments.train.plan import Way

MODELS = (VGG16.key, LSTM.key, INCEPTION_V3.key)
"""The networks of the paper's experiment."""
BATCH = 32
"""The paper's batch of a worker."""
MACHINES = (1, 2, 4)
LINKS = (Link(10e9),)
TRANSPORTS = {each.key: each for each in (GRPC, STAGED, FARWRITE)}
FABRIC = "tcp"
"""What Farwrite uses: no other fabric goes over a link of this machine."""
SHORT = Pace(5, 1, (BATCH,))
QUICK = Pace(2, 1, (BATCH,))
QUICK_MODELS, QUICK_MACHINES = (LSTM.key,), (1, 2)
CALIBRATION_SECONDS = 45.0
START_SECONDS = 3.0
"""Of a machine, for each transport."""
NS_PER_BYTE = 1.5
"""Of a step, for each byte of the variables and each machine."""
NOTES = (
    "A machine is a parameter server and a worker in a network namespace, with an address of its"
    " own. A link shapes both directions: by tc's tbf at the machine's end of its cable and"
    " at the switch's. Farwrite uses tcp, because shared memory would go around the links.",
    "x local: throughput over a purely local run, one worker's steps in one process. x grpc:"
    " throughput over stock gRPC's, in the same rounds if both clusters fit into memory together.",
    f"cores busy: of this machine, which all machines share. From {100 * BUSY:.0f} % on the"
    " processors limit the step, and the row shows no network, so it does not count.",
    "predicted ms: by the capacity model of farwrite plan, from the costs of bytes, messages and"
    " steps between one server and one worker; it has seen no network of the table.",
)
WITHIN = 0.2
"""How far a prediction may be from the step, as a share of it."""


def plan(arguments: argparse.Namespace, record: Record) -> ScalingPlan:
    """Make the plan from the options."""
    quick = arguments.quick
    pace = QUICK if quick else SHORT
    reason = "--loopback was given" if arguments.loopback else why_no_namespaces()
    if reason is not None:
        record.notes.append(f"no links are shaped, and all machines use the loopback: {reason}")
    shaped = set() if reason else set(arguments.link)
    own = sorted(str(link) for link in shaped if shaped_by(link) == OWN)
    if own:
        record.notes.append(
            f"the kernel cannot shape {', '.join(own)} (it has no tbf, or no netem for a delay), so"
            " a process of the benchmark passes the packets on; it takes time of the processors"
        )
    return ScalingPlan(
        points(
            arguments.model or (QUICK_MODELS if quick else MODELS),
            arguments.batch,
            arguments.machines,
            [None if reason else link for link in arguments.link],
        ),
        ways(arguments.transport or [key for key in TRANSPORTS if key != "staged"]),
        Pace(arguments.rounds, pace.steps, pace.batches),
        None if arguments.calibration is None else read_costs(arguments.calibration),
        QUICK_ROUNDS if quick else ROUNDS,
    )


def points(
    models: Sequence[str], batch: int, machines: Sequence[int], links: Sequence[Link | None]
) -> tuple[Point, ...]:
    """Return all points, those of one network together."""
    return tuple(
        Point(model, batch, count, link) for model in models for link in links for count in machines
    )


def ways(transports: Sequence[str]) -> tuple[Way, ...]:
    """Return how these transports run."""
    return tuple(
        Way(transport, None if transport.stock else FABRIC)
        for key, transport in TRANSPORTS.items()
        if key in transports
    )


def expected_seconds(plan: ScalingPlan) -> float:
    """Estimate the time of a run on two processors."""
    steps = plan.pace.rounds * plan.pace.steps + FIRST_STEPS
    alone = {point.model: point.compute_s for point in plan.points}
    seconds = CALIBRATION_SECONDS + steps * sum(alone.values())
    for point in plan.points:
        moving = NS_PER_BYTE * 1e-9 * point.case.network.bytes * point.machines
        of_way = START_SECONDS * point.machines + steps * (point.compute_s + moving)
        seconds += len(plan.ways) * of_way
    return seconds


def measure(plan: ScalingPlan, progress: Progress, logs: Path) -> Iterator[Facts]:
    """Measure each point, and yield the rows so far, with the costs that predicted them."""
    costs = plan.costs or calibration(plan, progress, logs)
    settings = {
        "machines": sorted({point.machines for point in plan.points}),
        "links": sorted({str(point.link) for point in plan.points if point.link}),
        "batch": plan.points[0].batch,
        "rounds": plan.pace.rounds,
        "malloc": MALLOC,
        "costs": costs.facts(),
    }
    rows: list[Row] = []
    for more in run(plan, costs, progress, logs):
        rows.extend(more)
        yield {"settings": settings, "rows": rows}


def sentences(facts: Facts) -> Iterator[str]:
    """Score the predictions, and say which rows do not count."""
    rows = facts["rows"]
    near = sum(abs(row["prediction_error"]) <= WITHIN for row in rows)
    worst = max(rows, key=lambda row: abs(row["prediction_error"]))
    yield (
        f"The model is within {100 * WITHIN:.0f} % at {near} of {len(rows)} points, of which it has"
        f" seen none; the worst is {name_of(worst['model'])} on {worst['workers']} machines"
        f" over {worst['transport']}, {100 * worst['prediction_error']:+.0f} %."
    )
    busy = [row for row in rows if not row["counts"]]
    if busy:
        yield (
            f"{len(busy)} of {len(rows)} rows do not count: the processors of this machine, which"
            " all machines of the run share, were busy, so that the row shows them and no network."
        )


def figures(facts: Facts) -> list[str]:
    """Draw a chart for each network and link, and the errors of the model."""
    groups = list(_groups(rows_of(facts)))
    errors = [
        Group(
            name,
            [
                Bar(
                    row["transport"],
                    f"{row['workers']} machines, {NAMES[row['transport']]}",
                    row["predicted_ms"] / row["step_ms"],
                    f"{100 * row['prediction_error']:+.0f} %",
                )
                for row in of_it
            ],
        )
        for name, of_it in groups
    ]
    note = "Dashed: as long as it took. The model has seen none of these points."
    return [
        *(chart for name, of_it in groups for chart in _chart(name, of_it)),
        bars("Predicted step, as a part of the measured one", errors, note, 1.0),
    ]


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for model, link in dict.fromkeys((row["model"], row["link"]) for row in rows):
        found = [row for row in rows if (row["model"], row["link"]) == (model, link)]
        yield f"{name_of(model)}, {link or 'loopback'}, batch {found[0]['batch']}", found


def _chart(name: str, rows: Sequence[Row]) -> list[str]:
    machines = sorted({row["workers"] for row in rows})
    series = [
        Series(key, NAMES[key], sorted((row["workers"], row["of_local"]) for row in mine))
        for key in NAMES
        if (mine := [row for row in rows if row["transport"] == key])
    ]
    look = Look(name, "machines", "x a local run", ticks_x=machines)
    return [lines(look, series)] if len(machines) > 1 else []


def gains(facts: Facts) -> list[Gain]:
    """Compare every row of Farwrite that counts with stock gRPC's."""
    return [
        Gain(
            f"{row['workers']} machines, {name_of(row['model'])}, {row['link'] or 'loopback'}",
            float(row["speedup"]),
            "stock gRPC",
            f"limited by {row['bottleneck']}, as the model says",
        )
        for row in rows_of(facts)
        if row["transport"] == "farwrite" and row["speedup"] is not None and row["counts"]
    ]


def _busy(row: Row) -> str:
    return f"{100 * row['cores_busy']:.0f} %" + ("" if row["counts"] else ", does not count")


BENCHMARK = Benchmark(
    name="scaling",
    description="Train the papers' networks on more and more machines. As root, each machine is a"
    " network namespace with a shaped link; otherwise all are processes on the loopback. The"
    " computation is emulated, so that two cores can carry eight machines. Each step is also"
    " predicted by the model of farwrite plan. Needs TensorFlow.",
    title="Scaling: more machines, with shaped links",
    needs=("tensorflow",),
    libraries=lambda plan: [*programs([way.transport for way in plan.ways]), MODULE],
    options=(
        chosen("--model", [network.key for network in SIX], ", ".join(MODELS), filled=False),
        chosen("--transport", TRANSPORTS, "grpc, farwrite", filled=False),
        Option(
            "--machines",
            "machines, each with a server and a worker",
            MACHINES,
            QUICK_MACHINES,
            counts,
            "N,N...",
            shown="1,2,4; --quick: 1,2",
        ),
        Option(
            "--link",
            "bits per second of a machine's link, such as 10G or 500M; may be given several times",
            LINKS,
            kind=parse_link,
            metavar="RATE",
            many=True,
            shown="10G",
        ),
        Option("--batch", "samples", BATCH, kind=count),
        Option("--loopback", "use the loopback, also as root; nothing is shaped"),
        Option(
            "--calibration",
            "predict from the costs in this file, as farwrite plan keeps them",
            kind=Path,
            metavar="FILE",
            shown="measure them first",
        ),
        rounds(SHORT.rounds, QUICK.rounds),
    ),
    plan=plan,
    measure=measure,
    seconds=expected_seconds,
    summary=lambda plan: f"{plan.pace.rounds} rounds of one step",
    settings=lambda _: {},
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("model", "model"),
                Column("machines", "workers"),
                Column("link", lambda row: row["link"] or "loopback"),
                Column("transport", lambda row: f"{row['transport']} {row['fabric']}"),
                Column("step ms", "step_ms", ".0f"),
                Column("samples/s", "samples_s", ".1f"),
                Column("x local", "of_local", ".2f"),
                Column("x grpc", "speedup", ".2f"),
                Column("cores busy", _busy),
                Column("predicted ms", "predicted_ms", ".0f"),
                Column("error %", lambda row: 100 * row["prediction_error"], "+.0f"),
                Column("bottleneck", "bottleneck"),
            ),
            named=4,
        ),
    ),
    sentences=sentences,
    charts=(figures,),
    gains=gains,
    gain_of="throughput of stock gRPC",
)
