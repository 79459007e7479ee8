"""Makes the figures of ``results.json`` from the runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from farwrite_bench.cluster.readings import spent
from farwrite_bench.demo.training import digits
from farwrite_bench.demo.training.plan import BATCH, THREADS, WORKERS, Run
from farwrite_bench.machine import machine
from farwrite_bench.ratio import rounded

Facts = dict[str, Any]

STEP_TIME = (
    "The coordinator measures the time of a step, from schedule() until the result's get() returns."
    " In this time the worker reads the weights from the parameter server and computes gradients on"
    f" a batch of {BATCH}, and the parameter server applies them. {WORKERS} steps are under way at"
    " a time, one for each worker, so no step waits in the queue."
)
NOTES = (
    STEP_TIME,
    "The first steps are the warm-up. They train the network and are not measured.",
    "Without --synchronous no worker waits for the other, as is usual with parameter servers. The"
    " batches have the same order over both transports. The order in which gradients arrive differs"
    " from run to run, and the last digits of loss and accuracy differ with it.",
    "socket_bytes_per_step is the sum of the bytes that the TCP sockets of all four processes sent"
    " and that were acknowledged (TCP_INFO). Each byte counts once, and TensorFlow's control calls"
    " are included.",
    "tensor_bytes_per_step is computed from the model: the parameters that are read and the"
    " gradients that are sent, as float32.",
    "copies_per_step and grpc_tensor_calls are Farwrite's counters. They are null for stock gRPC,"
    " because TensorFlow does not count them. Stock gRPC moves each of tensors_per_step by a"
    " RecvTensor call.",
    "ps_peak_rss_bytes is the parameter server's VmHWM, which counts memory shared with the workers"
    " in full. ps_pss_bytes, read at the end of the run, divides shared memory among its users.",
    "TensorFlow's servers listen on all interfaces, whatever their address in the cluster. These"
    " tasks use 127.0.0.1 only.",
)


def results(runs: Sequence[Run], proofs: Sequence[Run], load: Sequence[float]) -> Facts:
    """Make the JSON object.

    Parameters
    ----------
    runs : sequence of Run
        The runs to compare.
    proofs : sequence of Run
        Short synchronous runs, for their weights.
    load : sequence of float
        The load averages before the first run.
    """
    facts = [run_facts(run) for run in runs]
    return {
        "dataset": digits.NAME,
        "runs": facts,
        "speedup": speedups(facts),
        "ps_peak_rss_ratio": _ratio(facts, "ps_peak_rss_bytes"),
        "synchronous_weights": agreement([*runs, *proofs]),
        "settings": {
            "batch": BATCH,
            "workers": WORKERS,
            "parameter_servers": 1,
            **asdict(THREADS),
            "why": "with these settings stock gRPC was fastest on two cores; both transports have"
            " them",
        },
        "machine": machine(),
        "load": list(load),
        "notes": list(NOTES),
    }


def run_facts(run: Run) -> Facts:
    """Make the figures of one run."""
    job, outcome = run.job, run.outcome
    total = spent(run.before, run.after)
    counted = run.after[0].counters is not None
    counters = {key: value for key, value in total.items() if isinstance(value, int)}
    server = run.after[0]
    return {
        "model": job.model.name,
        "parameters": job.model.parameters,
        "transport": run.transport.key,
        "synchronous": job.synchronous,
        "steps": job.steps,
        "step_ms": {
            "median": round(statistics.median(outcome.step_ms), 3),
            "p90": round(percentile(outcome.step_ms, 90), 3),
        },
        "final_loss": outcome.final_loss,
        "test_accuracy": outcome.test_accuracy,
        "socket_bytes_per_step": round(total["socket_bytes"] / job.steps, 1),
        "tensor_bytes_per_step": job.tensor_bytes_per_step,
        "copies_per_step": counters.get("copies", 0) / job.steps if counted else None,
        "grpc_tensor_calls": counters.get("grpc_recv_tensor_calls", 0) if counted else None,
        "tensors_per_step": job.tensors_per_step,
        "seconds": round(outcome.seconds, 3),
        "cpu_ms_per_step": round(total["cpu_seconds"] / job.steps * 1e3, 3),
        "ps_peak_rss_bytes": server.peak_rss,
        "ps_pss_bytes": server.pss,
        "weights_sha256": outcome.weights_sha256,
        "farwrite": {k: v for k, v in counters.items() if k != "socket_bytes"} if counted else None,
        "loss": [[round(at, 4), step, round(loss, 5)] for at, step, loss in outcome.loss],
        "all_step_ms": [round(value, 3) for value in outcome.step_ms],
    }


def speedups(facts: Sequence[Facts]) -> dict[str, float]:
    """Divide stock gRPC's median step by Farwrite's, for each model that ran over both."""
    medians = {(run["model"], run["transport"]): run["step_ms"]["median"] for run in facts}
    return {
        model: rounded(stock / medians[model, "farwrite"])
        for (model, transport), stock in medians.items()
        if transport == "grpc" and (model, "farwrite") in medians
    }


def agreement(runs: Sequence[Run]) -> list[Facts]:
    """Compare the weights of the synchronous runs of each model."""
    found: dict[str, Facts] = {}
    for run in runs:
        if run.job.synchronous:
            entry = found.setdefault(
                run.job.model.name,
                {"model": run.job.model.name, "steps": run.job.steps, "sha256": {}},
            )
            entry["sha256"][run.transport.key] = run.outcome.weights_sha256
    for entry in found.values():
        hashes = entry["sha256"].values()
        entry["identical"] = len(set(hashes)) == 1 if len(hashes) > 1 else None
    return list(found.values())


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value that `percent` percent of `values` do not exceed."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _ratio(facts: Sequence[Facts], key: str) -> float | None:
    """Divide the value of the first run over Farwrite by that of the first run over gRPC.

    Both runs are the first of their process, so their memory can be compared.
    """
    first: dict[str, float] = {}
    for run in facts:
        first.setdefault(run["transport"], run[key])
    if "grpc" not in first or "farwrite" not in first:
        return None
    return round(first["farwrite"] / first["grpc"], 3)
