"""Small results of the benchmarks of training, as ``farwrite bench --json`` writes them."""

from __future__ import annotations

from collections.abc import Iterable

from result_facts import Facts, facts, ratio_of, times_less

from farwrite_bench.cluster.group import Turn
from farwrite_experiments.capacity.costs import Costs, TransportCosts
from farwrite_experiments.capacity.job import Site
from farwrite_experiments.capacity.plan import answers, of_network
from farwrite_experiments.cluster.link import Link
from farwrite_experiments.scaling.benchmark import ways
from farwrite_experiments.scaling.run import Point, make_rows

_CHEAP = TransportCosts(1e-9, 1e9, 1e-5, 1e-5, 1e-3, 1e-3)
COSTS = Costs(2, 1e-10, {"grpc": _CHEAP, "farwrite tcp": _CHEAP})
"""A calibration."""
MODELS = {
    # bytes of the variables, milliseconds of computation for each sample
    "alexnet": (185e6, 7.6),
    "vgg16": (537e6, 30.9),
    "inception_v3": (97e6, 68.3),
    "lstm": (38e6, 33.3),
    "gru": (29e6, 30.4),
    "fcn5": (214e6, 4.9),
    "mnist_mlp": (0.32e6, 0.1),
}

TRANSPORTS = {
    # nanoseconds of exposed communication for each byte, fabrics
    "grpc": (2.0, ("tcp",)),
    "rpc-over-fabric": (0.9, ("shm", "tcp")),
    "staged": (0.3, ("shm", "tcp")),
    "farwrite": (0.1, ("shm", "tcp")),
    "local": (0.0, ("none",)),
}


def _train_row(model: str, batch: int, transport: str, fabric: str) -> Facts:
    size, sample = MODELS[model]

    def exposed(key: str, over: str) -> float:
        cost = TRANSPORTS[key][0] * (1.5 if over == "tcp" and key != "grpc" else 1)
        return cost * size / 1e6

    comm, compute = exposed(transport, fabric), batch * sample
    step, stock = compute + comm, compute + exposed("grpc", "tcp")
    of_grpc = exposed("grpc", "tcp") / comm if comm else None
    of_rpc = exposed("rpc-over-fabric", fabric) / comm if comm else None
    return {
        "model": model,
        "transport": transport,
        "fabric": fabric,
        "mode": "data",
        "compute": "emulated",
        "batch": batch,
        "servers": 1,
        "workers": 2,
        "sync": True,
        "step_ms": step,
        "step_ms_rounds": [step * 0.95, step, step * 1.05],
        "compute_ms": compute,
        "comm_ms": comm,
        "comm_ms_ci": [comm * 0.9, comm * 1.1],
        "samples_s": 2 * batch / step * 1e3,
        "of_grpc": times_less(None if transport == "grpc" else of_grpc),
        "of_rpc": times_less(None if transport in ("grpc", "rpc-over-fabric", "local") else of_rpc),
        "speedup": stock / step,
        "copies_per_step": None if transport == "grpc" else 0.0,
        "registrations_per_step": 0.0,
        "requests_per_step": 0.0,
        "socket_bytes_per_step": 1234.0,
        "tensor_bytes_per_step": 2 * size,
        "cpu_s_per_step": step / 1e3,
        "rounds": 3,
        "load": 0.1,
        "group": ["local", "grpc", "farwrite shm"],
    }


def train(models: Iterable[str] = MODELS, batches: Iterable[int] = (1, 8, 32, 64)) -> Facts:
    """Return a result of ``bench train``."""
    batches = [*batches]
    return facts(
        "train",
        settings={"compute": "emulated", "rounds": 3, "batches": batches, "sync": True},
        rows=[
            _train_row(model, batch, transport, fabric)
            for model in models
            for batch in batches
            for transport, (_, fabrics) in TRANSPORTS.items()
            for fabric in fabrics
        ],
    )


def convergence() -> Facts:
    """Return a result of ``bench convergence``. One task has not reached its quality."""
    rows = []
    for task, measure, target in (
        ("images", "accuracy", 0.95),
        ("seq2seq", "perplexity", 20.0),
        ("sentences", "loss", 1.0),
    ):
        for compute in ("real", "emulated"):
            for transport, fabric, ratio in (("grpc", "tcp", 1.0), ("farwrite", "shm", 0.5)):
                reached = task != "sentences"
                seconds = {"mean": 8 * ratio, "low": 7 * ratio, "high": 9 * ratio, "runs": []}
                curve = [
                    {"step": n, "loss": 3 / n, "quality": 30 / n, "seconds": n * ratio / 10}
                    for n in range(10, 90, 10)
                ]
                rows.append(
                    {
                        **{"task": task, "transport": transport, "fabric": fabric},
                        **{"compute": compute, "batch": 16, "servers": 1, "workers": 2},
                        "data": {"name": "made", "synthetic": task != "images"},
                        **{"measure": measure, "target": target, "runs": [1, 2], "seeds": [1, 2]},
                        **{"reached": 2 if reached else 1, "quality": [0.9, 0.95]},
                        "steps_to_quality": {**seconds, "mean": 80} if reached else None,
                        "seconds_to_quality": seconds if reached else None,
                        "of_grpc": None if transport == "grpc" else ratio_of(ratio),
                        **{"step_ms": 100 * ratio, "curve": curve, "curves": [curve, curve]},
                        **{"copies_per_step": None, "requests_per_step": 0.0, "load": 0.1},
                        **{"registrations_per_step": 0.0, "tensor_bytes_per_step": 1e7},
                        **{"socket_bytes_per_step": 1e3, "cpu_s_per_step": 0.1, "longest": [9, 9]},
                    }
                )
    return facts("convergence", settings={"runs": 2, "tasks": ["images"]}, rows=rows)


def sizes() -> Facts:
    """Return a result of ``bench sizes``."""
    rows = []
    for model, (total, _) in MODELS.items():
        found = [int(total * 0.9 / 2), int(total * 0.9 / 2), *[4096 * n for n in range(1, 11)], 40]
        rows.append(
            {
                "model": model,
                "variables": len(found),
                "bytes": sum(found),
                "sizes": found,
                "share_over_10KB": 0.7,
                "share_over_1MB": 0.25,
                "bytes_share_over_1MB": 0.97,
            }
        )
    return facts("sizes", rows=rows)


def scaling() -> Facts:
    """Return a result of bench scaling, by its own rows."""
    rows = []
    for count in (1, 2, 4):
        point = Point("vgg16", 32, count, Link(10e9))
        seconds = {"grpc": 1.0 + 0.8 * count, "farwrite tcp": 1.0 + 0.5 * count}
        of_way = {key: [Turn([step], [], [], 0.6 * step)] * 2 for key, step in seconds.items()}
        compared = ways(["grpc", "farwrite"])
        rows += make_rows(point, compared, of_way, 1.0, COSTS, together=True, load=0.1)
    return facts("scaling", settings={"rounds": 2, "costs": COSTS.facts()}, rows=rows)


def plan() -> Facts:
    """Return a result of farwrite plan, by its own predictions."""
    site = Site(Link(10e9), 2, accelerated=True)
    workload = of_network("lstm", 32, None)
    rows = answers(workload, site, COSTS, workers=(1, 8, 64), transports=("grpc",))
    return facts("plan", settings={"costs": COSTS.facts()}, rows=rows)
