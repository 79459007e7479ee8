"""What this machine measured of the quantities that the papers measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from farwrite.units import format_size
from farwrite_bench.grpc.rows import compared
from farwrite_bench.report.files import Run
from farwrite_bench.report.parts import Facts, Row, figure, rows_of
from farwrite_bench.table import times
from farwrite_bench.tensor.plan import REDUCE_MAX
from farwrite_bench.tensor.rows import ratios
from farwrite_experiments.convergence.charts import goal
from farwrite_experiments.train import charts as train
from farwrite_experiments.train.rows import gain

Wanted = str | list[str | None]
"""A key of `MEASURES` and its arguments; or why this machine measures nothing like it."""


def measured(wanted: Wanted, runs: Sequence[Run]) -> str:
    """Return this machine's figure with its conditions, or why there is none."""
    if isinstance(wanted, str):
        return wanted
    benchmark, measure = MEASURES[wanted[0] or ""]
    return measure(runs, *wanted[1:]) or f"not measured here: farwrite bench {benchmark}"


def _facts(runs: Sequence[Run], benchmark: str) -> Iterator[Facts]:
    return (run.facts for run in runs if run.benchmark == benchmark)


def _rows(runs: Sequence[Run], benchmark: str) -> Iterator[Row]:
    return (row for facts in _facts(runs, benchmark) for row in rows_of(facts))


def _span(values: Sequence[float], unit: str = "x") -> str:
    low, high = (
        times(each) if unit == "x" else f"{figure(each)}{unit}"
        for each in (min(values), max(values))
    )
    return low if low == high else f"{low} to {high}"


def _fabrics(rows: Iterable[Row]) -> str:
    return "/".join(dict.fromkeys(row["fabric"] for row in rows))


def _tensor(runs: Sequence[Run], theirs: str) -> str:
    parts = []
    for facts in _facts(runs, "tensor"):
        found = [(size, ratio) for what, size, ratio in ratios(facts, theirs) if what == REDUCE_MAX]
        if found:
            sizes, gained = zip(*found, strict=True)
            fabrics = _fabrics(row for row in rows_of(facts) if row["transport"] == train.FARWRITE)
            parts.append(
                f"{_span(gained)}; {format_size(min(sizes))} to {format_size(max(sizes))}, one"
                f" host, {fabrics}"
            )
    return "; ".join(parts)


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
    return f"{span}, {kinds} computation, one host, {_fabrics(rows)}"


def _train(runs: Sequence[Run], model: str | None, theirs: str) -> str:
    found = [
        (ratio, row)
        for case, row in _trained(runs, model)
        for other in case
        if other["transport"] == theirs
        and (theirs == train.GRPC or other["fabric"] == row["fabric"])
        and (ratio := gain(row, other)) is not None
    ]
    if not found:
        return ""
    gained, rows = zip(*found, strict=True)
    return f"{_span(gained)} the throughput; {_conditions(rows)}"


def _step_by_batch(runs: Sequence[Run], model: str) -> str:
    rows = [row for _, row in _trained(runs, model)]
    first = [row for row in rows if row["fabric"] == rows[0]["fabric"]]
    ends = [choose(first, key=itemgetter("batch")) for choose in (min, max)] if first else []
    if not ends or ends[0]["batch"] == ends[1]["batch"]:
        return ""
    shown = [f"{figure(row['step_ms'])} ms at batch {row['batch']}" for row in ends]
    return f"{', '.join(shown)}; {_conditions(ends[:1])}"


def _convergence(runs: Sequence[Run], task: str) -> str:
    """Return the time to the quality beside stock's, of each computation."""
    parts = []
    for row in _rows(runs, "convergence"):
        if row["task"] == task and row["transport"] == train.FARWRITE and row["of_grpc"]:
            seconds = row["seconds_to_quality"]
            took = f"{seconds['mean']:.3g} s" if seconds else "the quality was not reached"
            parts.append(
                f"{row['compute']} computation: {times(1 / row['of_grpc']['median'])} ({took},"
                f" {goal(row)}, {row['workers']} workers, {row['fabric']}; {row['data']['name']})"
            )
    return "; ".join(parts)


def _grpc(runs: Sequence[Run], benchmark: str, scheme: str | None) -> str:
    parts = []
    for facts in _facts(runs, "grpc"):
        found: dict[str, list[float]] = {}
        for row in compared(facts):
            if row["benchmark"] == benchmark and scheme in (None, row["scheme"]):
                found.setdefault(row["transport"], []).append(row["ratio_to_tcp"])
        parts += [f"{transport} {_span(of_it)}" for transport, of_it in found.items()]
    if not parts:
        return ""
    what = "less" if benchmark == "latency" else "the calls a second"
    return f"{', '.join(parts)} {what}, beside gRPC over TCP; one host"


def _box(runs: Sequence[Run], model: str, column: str) -> str:
    parts = []
    for row in _rows(runs, "box"):
        if (row["test"], row.get("model")) != ("emulation", model) or row[column] is None:
            continue
        if column == "ratio" and not row["transport"].startswith("box"):
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
    counted = [row["copies_per_step"] for _, row in _trained(runs, None)]
    if found := [each for each in counted if each is not None]:
        return f"{_span(found, '')} a step of training"
    found = [
        row["counters"].get("copies", 0)
        for row in _rows(runs, "ablations")
        if row["transport"] == "shm unified" and row["consumer"] == "network"
    ]
    return f"{_span(found, '')} a step of AlexNet's bytes, shm unified" if found else ""


def _copy_throughput(runs: Sequence[Run]) -> str:
    copies = next((run.facts["copies"] for run in runs if run.facts.get("copies")), None)
    if copies is None:
        return ""
    shown = [
        f"{max(row['gb_s'].values()):.3g} GB/s at {format_size(row['size'])}"
        for row in (copies[0], copies[-1])
    ]
    return f"{', '.join(shown)}; one thread, the fastest kernel"


MEASURES: dict[str, tuple[str, Callable[..., str]]] = {
    "tensor": ("tensor", _tensor),
    "train": ("train", _train),
    "step by batch": ("train", _step_by_batch),
    "convergence": ("convergence", _convergence),
    "grpc": ("grpc", _grpc),
    "box": ("box", _box),
    "registrations": ("ablations", _registrations),
    "copies": ("ablations", _copies),
    "copy throughput": ("memory", _copy_throughput),
}
"""The benchmark of each measure, and what returns its figure; an empty one, if no file has it."""
