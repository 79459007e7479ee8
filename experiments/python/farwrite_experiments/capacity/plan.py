"""What one run of ``farwrite plan`` predicts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.errors import InvalidArgument
from farwrite_bench.report.parts import Row
from farwrite_experiments.capacity.costs import RDMA, Costs
from farwrite_experiments.capacity.job import FORWARD, Job, Site, Stage, stages
from farwrite_experiments.capacity.predict import predict
from farwrite_experiments.networks.network import NETWORKS

TRANSPORTS = ("grpc", "farwrite tcp", "farwrite shm", RDMA)
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Workload:
    """What a worker computes in a step, and what it moves."""

    name: str
    stages: tuple[Stage, ...]
    samples: int
    """Of a worker's step."""


def of_network(key: str, batch: int, compute_ms: float | None) -> Workload:
    """Return the workload of one of the papers' networks.

    Raises
    ------
    InvalidArgument
        If the paper gives no computation time for it, and there is none in `compute_ms`.
    """
    network = NETWORKS[key]
    if compute_ms is None and network.compute_ms == 0:
        raise InvalidArgument(
            f"farwrite plan: the paper gives no computation time for {key}; give the milliseconds"
            " of a worker's step in --compute-ms"
        )
    whole = batch * network.compute_ms if compute_ms is None else compute_ms
    return Workload(network.name, stages(network.layers, whole / 1e3), batch)


def of_edges(path: Path, batch: int, compute_ms: float | None) -> Workload:
    """Return the workload of a graph that ``farwrite tensorflow analyze --json`` has listed.

    The file does not say in which order a worker computes, so it computes when everything has
    arrived, and sends when it has computed.

    Raises
    ------
    InvalidArgument
        If the file cannot be used, or `compute_ms` is missing.
    """
    if compute_ms is None:
        raise InvalidArgument(
            "farwrite plan: --edges says nothing of time; give the milliseconds of a worker's step"
            " in --compute-ms"
        )
    try:
        edges = json.loads(path.read_text(encoding="utf-8"))
        sizes = sorted(
            edge["max_bytes"]
            for edge in edges
            if not edge["control"]
            and edge["source_task"] != edge["target_task"]
            and edge["target_task"].startswith("worker")
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgument(
            f"farwrite plan: {path} is not a list of edges ({error}); make one with"
            " `farwrite tensorflow analyze GRAPH --json FILE`"
        ) from error
    sizes = [size for size in sizes if size > 0]
    if not sizes:
        raise InvalidArgument(
            f"farwrite plan: {path} has no edge of a known size to a task of the job worker; place"
            " the graph's nodes with --place, and give shapes to what is dynamic"
        )
    whole = compute_ms / 1e3
    stage = Stage(tuple(sizes), FORWARD * whole, (1 - FORWARD) * whole)
    return Workload(path.name, (stage,), batch)


def answers(
    workload: Workload,
    site: Site,
    costs: Costs,
    *,
    workers: Sequence[int],
    transports: Sequence[str],
    servers: int | None = None,
    sync: bool = True,
    straggler: float = 1.0,
) -> list[Row]:
    """Predict every number of workers over every transport.

    Without `servers` there are as many as workers.
    """
    return [
        _row(workload, site, costs, key, Job(workload.stages, n, servers or n, sync, straggler))
        for key in transports
        for n in workers
    ]


def moves(rows: Sequence[Row]) -> list[str]:
    """Say where the bottleneck of each transport moves, as workers are added."""
    found = []
    for key in dict.fromkeys(row["transport"] for row in rows):
        of_it = [row for row in rows if row["transport"] == key]
        changes = [f"{kind_of(of_it[0]['bottleneck'])} with {of_it[0]['workers']}"]
        for before, row in itertools.pairwise(of_it):
            if kind_of(before["bottleneck"]) != kind_of(row["bottleneck"]):
                changes.append(f"{kind_of(row['bottleneck'])} from {row['workers']}")
        found.append(f"{key}: limited by {', by '.join(changes)} workers.")
    return found


def kind_of(bottleneck: str) -> str:
    """Return the kind of a resource: all servers' links are one, and so are all workers'."""
    words = bottleneck.split()
    return " ".join(words[:-1]) if words[-1].isdigit() else bottleneck


def _row(workload: Workload, site: Site, costs: Costs, key: str, job: Job) -> Row:
    found = predict(job, site, costs, costs.transport(key))
    return {
        "workload": workload.name,
        "transport": key,
        "workers": job.workers,
        "servers": job.servers,
        "sync": job.sync,
        "link": None if site.link is None else str(site.link),
        "step_ms": round(1e3 * found.step_s, 3),
        "local_ms": round(1e3 * found.local_s, 3),
        "exposed_ms": round(1e3 * found.exposed_s, 3),
        "samples_s": round(workload.samples * job.workers / found.step_s, 3),
        "efficiency": round(found.local_s / found.step_s, 4),
        "bottleneck": found.bottleneck,
        "share": round(found.shares[found.bottleneck], 4),
    }
