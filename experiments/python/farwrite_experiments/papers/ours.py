"""What this machine measured of the quantities that the papers measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from farwrite.units import format_size
from farwrite_bench.box.plan import NETWORKS
from farwrite_bench.grpc.rows import compared
from farwrite_bench.report.files import Run
from farwrite_bench.report.parts import Facts, Row, figure, rows_of
from farwrite_bench.table import times
from farwrite_bench.tensor.rows import ratios
from farwrite_experiments.convergence.charts import goal
from farwrite_experiments.convergence.tasks import TASKS
from farwrite_experiments.networks.network import NETWORKS as TRAINED
from farwrite_experiments.train import charts as train
from farwrite_experiments.train.rows import gain

Measure = Callable[[Sequence[Run]], str]
"""Returns a figure with its conditions; empty if no file has it."""


def measured(name: str, runs: Sequence[Run]) -> str:
    """Return this machine's figure: of the measure `name`, or `name` where that is a reason."""
    measure = MEASURES.get(name)
    if measure is None:
        return name
    return measure(runs) or f"not measured here: {_command(name)}"


def _command(name: str) -> str:
    return {
        "registrations": "farwrite bench ablations",
        "copies": "farwrite bench ablations",
        "copy throughput": "farwrite bench memory",
    }.get(name, f"farwrite bench {name.split()[0]}")


def _facts(runs: Sequence[Run], benchmark: str) -> Iterator[Facts]:
    return (run.facts for run in runs if run.benchmark == benchmark)


def _span(values: Sequence[float], unit: str = "x") -> str:
    low, high = min(values), max(values)
    shown = [times(each) if unit == "x" else f"{figure(each)}{unit}" for each in (low, high)]
    return shown[0] if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"


def _tensor(theirs: str, runs: Sequence[Run]) -> str:
    parts = []
    for facts in _facts(runs, "tensor"):
        found = [each for each in ratios(facts, theirs) if each[0] == "reduce_max"]
        if found:
            sizes = [size for _, size, _ in found]
            fabrics = _fabrics(row for row in rows_of(facts) if row["transport"] == "farwrite")
            parts.append(
                f"{_span([ratio for *_, ratio in found])}; {format_size(min(sizes))} to"
                f" {format_size(max(sizes))}, one host, {fabrics}"
            )
    return "; ".join(parts)


def _fabrics(rows: Iterator[Row]) -> str:
    return "/".join(dict.fromkeys(row["fabric"] for row in rows))


def _trained(runs: Sequence[Run], model: str | None) -> Iterator[tuple[list[Row], Row]]:
    """Yield each row of Farwrite, with the rows of the same case."""
    for facts in _facts(runs, "train"):
        rows = [row for row in train.measured(facts) if model in (None, row["model"])]
        for row in rows:
            if row["transport"] == train.FARWRITE:
                same = ("model", "batch", *train.QUALIFIERS)
                yield [each for each in rows if all(each[n] == row[n] for n in same)], row


def _conditions(rows: Sequence[Row]) -> str:
    batches = sorted({row["batch"] for row in rows})
    span = f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"
    kinds = "/".join(dict.fromkeys(row["compute"] for row in rows))
    return f"{span}, {kinds} computation, one host, {_fabrics(iter(rows))}"


def _train(model: str | None, theirs: str, runs: Sequence[Run]) -> str:
    ratios, rows = [], []
    for case, row in _trained(runs, model):
        for other in case:
            of_fabric = theirs == train.GRPC or other["fabric"] == row["fabric"]
            ratio = gain(row, other) if other["transport"] == theirs and of_fabric else None
            if ratio is not None:
                ratios.append(ratio)
                rows.append(row)
    if not ratios:
        return ""
    return f"{_span(ratios)} the throughput; {_conditions(rows)}"


def _step_by_batch(model: str, runs: Sequence[Run]) -> str:
    rows = [row for _, row in _trained(runs, model)]
    first = [row for row in rows if row["fabric"] == rows[0]["fabric"]]
    small, large = (
        choose(first, key=lambda row: int(row["batch"]), default=None) for choose in (min, max)
    )
    if small is None or large is None or small["batch"] == large["batch"]:
        return ""
    return (
        f"{figure(small['step_ms'])} ms at batch {small['batch']}, {figure(large['step_ms'])} ms at"
        f" batch {large['batch']}; {_conditions([small])}"
    )


def _convergence(task: str, runs: Sequence[Run]) -> str:
    """Return the time to the quality beside stock's, of each computation."""
    parts = []
    for facts in _facts(runs, "convergence"):
        for row in rows_of(facts):
            seconds = row["seconds_to_quality"]
            if row["task"] == task and row["transport"] == train.FARWRITE and row["of_grpc"]:
                took = (
                    "the quality was not reached" if seconds is None else f"{seconds['mean']:.3g} s"
                )
                parts.append(
                    f"{row['compute']} computation: {times(1 / row['of_grpc']['median'])} ({took},"
                    f" {goal(row)}, {row['workers']} workers, {row['fabric']};"
                    f" {row['data']['name']})"
                )
    return "; ".join(parts)


def _grpc(benchmark: str, scheme: str | None, runs: Sequence[Run]) -> str:
    parts = []
    for facts in _facts(runs, "grpc"):
        rows = [
            row
            for row in compared(facts)
            if row["benchmark"] == benchmark and scheme in (None, row["scheme"])
        ]
        for transport in dict.fromkeys(row["transport"] for row in rows):
            found = [row["ratio_to_tcp"] for row in rows if row["transport"] == transport]
            parts.append(f"{transport} {_span(found)}")
    if not parts:
        return ""
    what = "less" if benchmark == "latency" else "the calls a second"
    return f"{', '.join(parts)} {what}, beside gRPC over TCP; one host"


def _box(model: str, column: str, runs: Sequence[Run]) -> str:
    parts = []
    for facts in _facts(runs, "box"):
        for row in rows_of(facts):
            if (row["test"], row.get("model")) != ("emulation", model) or row[column] is None:
                continue
            if not row["transport"].startswith("box") and column == "ratio":
                continue
            value = times(row[column]) if column == "ratio" else f"{figure(row[column])} ms"
            parts.append(f"{row['transport']} {value} ({row['workers']} workers)")
    return f"{', '.join(parts)}; one host" if parts else ""


def _registrations(runs: Sequence[Run]) -> str:
    moved = [
        each
        for facts in _facts(runs, "ablations")
        for each in facts["registrations"]
        if each["transfers_a_step"]
    ]
    if not moved:
        return ""
    most = max(moved, key=lambda each: float(each["registrations_a_step"]))
    return (
        f"at most {figure(most['registrations_a_step'])} registrations in"
        f" {figure(most['transfers_a_step'])} transfers of a step ({most['way']}), of"
        f" {len(moved)} ways"
    )


def _copies(runs: Sequence[Run]) -> str:
    found = [
        row["copies_per_step"]
        for _, row in _trained(runs, None)
        if row["copies_per_step"] is not None
    ]
    if found:
        return f"{_span(found, '')} a step of training"
    found = [
        row["counters"].get("copies", 0)
        for facts in _facts(runs, "ablations")
        for row in rows_of(facts)
        if row["transport"] == "shm unified" and row["consumer"] == "network"
    ]
    return f"{_span(found, '')} a step of AlexNet's bytes, shm unified" if found else ""


def _copy_throughput(runs: Sequence[Run]) -> str:
    for run in runs:
        copies = run.facts.get("copies")
        if copies:
            ends = (copies[0], copies[-1])
            shown = [
                f"{max(row['gb_s'].values()):.3g} GB/s at {format_size(row['size'])}"
                for row in ends
            ]
            return f"{', '.join(shown)}; one thread, the fastest kernel"
    return ""


MEASURES: dict[str, Measure] = {
    **{
        f"tensor beside {theirs}": partial(_tensor, theirs)
        for theirs in ("grpc", "rpc-over-fabric", "staged")
    },
    **{
        f"train {model} beside {theirs}": partial(_train, model, theirs)
        for model in TRAINED
        for theirs in (train.GRPC, train.RPC, train.STAGED)
    },
    "train beside staged": partial(_train, None, train.STAGED),
    **{f"train {model} step by batch": partial(_step_by_batch, model) for model in TRAINED},
    **{f"convergence {task}": partial(_convergence, task) for task in TASKS},
    "grpc latency": partial(_grpc, "latency", None),
    "grpc skew latency": partial(_grpc, "latency", "skew"),
    "grpc ps-throughput": partial(_grpc, "ps-throughput", "uniform"),
    "grpc mimic": partial(_grpc, "mimic", None),
    **{f"box {model}": partial(_box, model, "ratio") for model in NETWORKS},
    "box inception_v1 ms": partial(_box, "inception_v1", "comm_ms"),
    "registrations": _registrations,
    "copies": _copies,
    "copy throughput": _copy_throughput,
}
