"""``farwrite bench gpu``: memory of one GPU between two processes, beside what the driver does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farwrite.units import format_size
from farwrite_bench.gpu.run import run
from farwrite_bench.harness import option
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.chart import BySize
from farwrite_bench.harness.column import Column, Table, marked
from farwrite_bench.record import Record
from farwrite_bench.report.parts import Card, Facts, Gain, Row
from farwrite_bench.table import times

SIZES = (1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30)
QUICK_SIZES = (1 << 20, 16 << 20)
_COLOURS = {
    "copy": "limit",
    "write": "farwrite",
    "alias": "farwrite-python",
    "torch": "gloo",
    "copy to host": "limit",
    "write to host": "farwrite",
    "copy from host": "raw",
    "read from host": "farwrite-python",
}
_NAMES = {
    "copy": "copy in one process (limit)",
    "write": "Farwrite, write",
    "alias": "copy from Farwrite's alias",
    "torch": "copy from PyTorch's shared tensor",
    "copy to host": "copy to host (limit)",
    "write to host": "Farwrite, write to host",
    "copy from host": "copy from host (limit)",
    "read from host": "Farwrite, read from host",
}
NOTES = (
    "Two processes on one GPU. copy: the driver's cuMemcpyAsync and the wait for its event, in one"
    " process. write: Channel.write with a notification into the other process's memory on the GPU."
    " alias: the driver's copy from the other process's memory, mapped without a copy. torch: the"
    " same from a tensor that PyTorch shared. to host, from host: over the bus; the driver's copy"
    " has pinned memory. All transfers are waited for, one by one.",
    "pins: segments that were registered with the driver during the turns; 0 in the steady state.",
)


@dataclass(frozen=True)
class GpuPlan:
    """A whole run."""

    sizes: tuple[int, ...]
    """Bytes of one transfer."""
    rounds: int
    gpu: int
    """The number of the GPU."""
    quick: bool


def plan(arguments: argparse.Namespace, record: Record) -> GpuPlan:
    """Make the plan from the options."""
    return GpuPlan(arguments.sizes, arguments.rounds, arguments.gpu, arguments.quick)


def measure(plan: GpuPlan, progress: Progress, logs: Path) -> Facts:
    """Measure everything in `plan`."""
    return run(plan.sizes, plan.rounds, plan.gpu, progress)


def sentences(facts: Facts) -> Iterator[str]:
    """Name the GPU, and say what handing over took, and what is missing."""
    yield f"GPU: {facts['gpu']}"
    for row in facts["hand_over"]:
        what = (
            "publish, lookup and alias"
            if row["way"] == "alias"
            else "a queue of torch.multiprocessing"
        )
        yield (
            f"Handing an array over without a copy took {row['p50_us']:.4g} us by {what} (median of"
            f" {row['times']})."
        )
    for key, reason in facts["missing"].items():
        yield f"{key}: not measured, {reason}."


def cards(facts: Facts) -> list[Card]:
    """Choose the share of the driver's rate at the largest size, and the hand-over."""
    writes = [row for row in facts["rows"] if row["way"] == "write"]
    chosen = [] if not writes else [max(writes, key=lambda row: int(row["size"]))]
    found: list[Card] = [
        (
            f"{row['of_limit']['median']:.0%}",
            f"of the driver's rate by a write of {format_size(row['size'])} on the GPU",
        )
        for row in chosen
    ]
    found += [
        (f"{row['p50_us']:.0f} us", "to hand an array over without a copy")
        for row in facts["hand_over"]
        if row["way"] == "alias"
    ]
    return found


def gains(facts: Facts) -> list[Gain]:
    """Compare the alias with PyTorch's shared tensor."""
    theirs = {row["size"]: row["gb_s"] for row in facts["rows"] if row["way"] == "torch"}
    return [
        Gain(
            f"copy of {format_size(row['size'])} from another process's memory on the GPU",
            row["gb_s"] / theirs[row["size"]],
            "PyTorch's shared tensor",
        )
        for row in facts["rows"]
        if row["way"] == "alias" and row["size"] in theirs
    ]


def target(row: Row) -> str | None:
    """Write the target of a row, and whether it was met."""
    least = None if row["target"] is None else f">={row['target']}"
    return marked(least, row["target_met"])


def _chart(title: str, *operations: str) -> BySize:
    return BySize(
        title,
        "GB/s",
        "gb_s",
        x="bytes of a transfer",
        order=[*_NAMES],
        names=_NAMES,
        colours=_COLOURS,
        where=lambda row: row["operation"] in operations,
    )


BENCHMARK = Benchmark(
    name="gpu",
    description="Move bytes between two processes on one GPU, and between the GPU and the other"
    " process's host memory, in turns with the driver's copies in one process, which wait for each"
    " copy as Farwrite does. Needs NVIDIA's driver; with PyTorch also its way to share tensors.",
    title="GPU memory",
    options=(
        option.Option("--gpu", "number of the GPU", 0, kind=int),
        option.size_list(
            SIZES,
            QUICK_SIZES,
            help="bytes of one transfer",
            metavar="1M,16M,...",
            shown="1M,16M,64M,256M,1G; --quick: 1M,16M",
        ),
        option.rounds(7, quick=2),
    ),
    plan=plan,
    seconds=lambda plan: 60 if plan.quick else 120,
    measure=measure,
    summary=lambda plan: f"{plan.rounds} rounds",
    settings=lambda plan: {"sizes": plan.sizes, "rounds": plan.rounds, "gpu": plan.gpu},
    settings_key="plan",
    notes=lambda _: NOTES,
    tables=(
        Table(
            (
                Column("size", "size", format_size),
                Column("operation", "operation"),
                Column("way", "way"),
                Column("GB/s", "gb_s", ".4g"),
                Column("of the driver's copy", "of_limit", lambda of: times(of["median"])),
                Column(
                    "spread", "of_limit", lambda of: f"{times(of['low'])} to {times(of['high'])}"
                ),
                Column("target", target),
                Column("pins", "pins"),
            ),
            named=3,
        ),
    ),
    sentences=sentences,
    charts=(
        _chart("Rate on the GPU", "gpu to gpu"),
        _chart("Rate between the GPU and host memory", "gpu to host", "host to gpu"),
    ),
    gains=gains,
    cards=cards,
)
