"""``farwrite bench sizes``: how large the tensors are that cross tasks in a training step."""

from __future__ import annotations

import argparse
import contextlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from farwrite.errors import Internal
from farwrite.units import format_size
from farwrite_bench.cluster.forked import import_tensorflow
from farwrite_bench.cluster.process import MALLOC
from farwrite_bench.cluster.transport import FARWRITE, PLUGIN
from farwrite_bench.failure import noting
from farwrite_bench.harness.benchmark import Benchmark, Progress
from farwrite_bench.harness.column import Column, Table
from farwrite_bench.harness.option import chosen
from farwrite_bench.record import Record
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.numbers import short_size
from farwrite_bench.report.parts import Facts, Row, without_failures
from farwrite_bench.sizes import KIB, MIB
from farwrite_experiments.cluster.observed import Observed
from farwrite_experiments.library import MODULE
from farwrite_experiments.networks.network import NETWORKS, SIX, Network, name_of
from farwrite_experiments.train.cluster import Cluster, start
from farwrite_experiments.train.plan import EMULATED, Case, Way

FIRST_STEPS, STEPS = 1, 2
START_SECONDS, MODEL_SECONDS = 15.0, 4.0
DRAWN = [1 << power for power in range(6, 31, 2)]
"""Sizes at which the shares are drawn: 64 B to 1 GiB."""
TICKS = DRAWN[::2]
NOTE = (
    "The plug-in counted the tensors that crossed tasks in a step with one parameter server and one"
    " worker: each variable's value one way, its gradient the other. With more workers there are"
    " more tensors of the same sizes. 1 KB is 1024 bytes."
)


def plan(arguments: argparse.Namespace, _: Record) -> list[Case]:
    """Make the cases from the options."""
    models = arguments.model or [network.key for network in SIX]
    return [Case(model, EMULATED, 1, workers=1) for model in models]


def measure(cases: list[Case], progress: Progress, logs: Path) -> Facts:
    """Take steps of each network, and count their tensors."""
    rows: list[Row] = []
    progress(0.0, "starting processes")
    import_tensorflow(MALLOC, logs / "import.log")
    left = deque(cases)
    while left:
        failed: dict[str, str] = {}
        with noting(failed, left[0].model), contextlib.ExitStack() as stack:
            cluster = start(Way(FARWRITE), cases[0].layout, logs, stack)
            while left:
                progress(1 - len(left) / len(cases), left[0].model)
                rows.append(_measure(cluster, left[0]))
                left.popleft()
        for why in failed.values():  # the others go on in new processes
            model = left.popleft().model if left else "end of the processes"
            rows.append({"model": model, "error": why})
    measured = without_failures(rows)
    return {"overall": overall(measured) if measured else None, "rows": rows}


def _measure(cluster: Cluster, case: Case) -> Row:
    cluster.open(case)
    cluster.take(case, FIRST_STEPS)
    before = cluster.observed()
    cluster.take(case, STEPS)
    sizes = sizes_of_step(before, cluster.observed(), STEPS)
    cluster.close(case)
    return make_row(case.network, case.batch, case.workers, sizes)


def sizes_of_step(before: Sequence[Observed], after: Sequence[Observed], steps: int) -> list[int]:
    """Return the bytes of each tensor that crossed tasks in one step, the largest first.

    Parameters
    ----------
    before, after : sequence of Observed
        What all tasks had sent before and after the steps.
    steps : int
        The number of steps. Each takes the same edges.
    """
    nothing = Observed("", 0, 0)
    earlier = {each.edge: each for each in before}
    sizes: list[int] = []
    for edge in after:
        known = earlier.get(edge.edge, nothing)
        tensors, moved = edge.tensors - known.tensors, edge.bytes - known.bytes
        if tensors % steps != 0:
            raise Internal(f"bench sizes: {edge.edge} sent {tensors} tensors in {steps} steps")
        if tensors and moved:
            sizes += [moved // tensors] * (tensors // steps)
    return sorted(sizes, reverse=True)


def make_row(network: Network, batch: int, workers: int, sizes: Sequence[int]) -> Row:
    """Make the row of a network. 1 KB is 1024 bytes."""
    return {
        "model": network.key,
        "batch": batch,
        "workers": workers,
        "variables": len(network.variables),
        "bytes": network.bytes,
        "sizes": list(sizes),
        **{key: round(share, 4) for key, share in _shares(sizes).items()},
    }


def overall(rows: Sequence[Row]) -> dict[str, float]:
    """Return the shares of all networks' tensors together."""
    return _shares([size for row in rows for size in row["sizes"]])


def _shares(sizes: Sequence[int]) -> dict[str, float]:
    return {
        "share_over_10KB": sum(size > 10 * KIB for size in sizes) / len(sizes),
        "share_over_1MB": sum(size > MIB for size in sizes) / len(sizes),
        "bytes_share_over_1MB": sum(size for size in sizes if size > MIB) / sum(sizes),
    }


def sentences(facts: Facts) -> list[str]:
    """Name the shares of all networks together."""
    shares = facts["overall"]
    return [
        f"All together: {shares['share_over_10KB']:.0%} of the tensors are over 10 KB and"
        f" {shares['share_over_1MB']:.0%} over 1 MB; those over 1 MB have"
        f" {shares['bytes_share_over_1MB']:.0%} of the bytes."
    ]


def figures(facts: Facts) -> list[str]:
    """Draw a chart for each network."""
    return [_chart(row["model"], np.array(row["sizes"])) for row in facts["rows"] if row["sizes"]]


def _chart(model: str, sizes: npt.NDArray[np.int64]) -> str:
    last = next((step for step in DRAWN if step > sizes.max()), DRAWN[-1])
    look = Look(
        name_of(model),
        "size of a tensor",
        "% of this size or more",
        log_x=True,
        write_x=short_size,
        ticks_x=[tick for tick in TICKS if tick <= last],
    )
    steps = [step for step in DRAWN if step <= last]
    counts = [(step, 100 * float(np.mean(sizes >= step))) for step in steps]
    shares = [(step, 100 * float(sizes[sizes >= step].sum() / sizes.sum())) for step in steps]
    return lines(look, [Series("tensors", "tensors", counts), Series("bytes", "bytes", shares)])


BENCHMARK = Benchmark(
    name="sizes",
    example="farwrite bench sizes --model vgg16",
    description="Run steps of the papers' networks over Farwrite, and show how large the tensors"
    " are that cross tasks. farwrite run shows the same for a program of yours. Needs TensorFlow.",
    title="Sizes of the tensors of a training step",
    needs=("tensorflow",),
    libraries=lambda _: (PLUGIN, MODULE),
    options=(chosen("--model", NETWORKS, "the six of the paper", filled=False),),
    plan=plan,
    measure=measure,
    seconds=lambda cases: START_SECONDS + MODEL_SECONDS * len(cases),
    summary=lambda cases: f"{STEPS} steps of each network, batch {cases[0].batch}",
    settings=lambda cases: {"models": [case.model for case in cases]},
    notes=lambda _: (NOTE,),
    tables=(
        Table(
            (
                Column("model", "model"),
                Column("tensors a step", lambda row: len(row["sizes"])),
                Column("bytes a step", lambda row: sum(row["sizes"]), format_size),
                Column("smallest", lambda row: row["sizes"][-1], format_size),
                Column("median", lambda row: row["sizes"][len(row["sizes"]) // 2], format_size),
                Column("largest", lambda row: row["sizes"][0], format_size),
                Column("over 10 KB", "share_over_10KB", ".0%"),
                Column("over 1 MB", "share_over_1MB", ".0%"),
                Column("bytes over 1 MB", "bytes_share_over_1MB", ".0%"),
            )
        ),
    ),
    sentences=sentences,
    charts=(figures,),
)
