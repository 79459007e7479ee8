"""Small results of every benchmark, as ``farwrite bench --json`` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from result_facts import KIB, MIB, Facts, facts, ratio_of
from training_results import convergence, plan, scaling, sizes, train

from farwrite_bench.box.plan import BANDWIDTH, EMULATION, LATENCY, NETWORKS, PUBLISH
from farwrite_bench.box.rows import row as box_row
from farwrite_bench.grpc.rows import FIELDS
from farwrite_experiments.ablations import ABLATIONS


def _tensor_row(transport: str, consumer: str, size: int, added: float) -> Facts:
    return {
        "transport": transport,
        "fabric": {"grpc": "tcp", "local": "none"}.get(transport, "shm"),
        "consumer": consumer,
        "size": size,
        "step_ms": added / 1e3 + 0.5,
        "empty_step_ms": 0.5,
        "added_us": added,
        "added_us_ci": [added * 0.9, added * 1.1],
        "copies": None if transport == "grpc" else 0.0,
        "socket_bytes": 1000.0,
        "grpc_tensor_calls": None,
        "control": None,
        "counters": {},
        "cpu_ms": 1.5,
        "steps": 100,
        "load": 0.1,
        "vs_local": None,
        "vs_local_same_control": None,
        "of_raw": None,
        "rounds": 5,
        "error": None,
    }


def tensor() -> Facts:
    """Return a result of ``bench tensor``, with a row that failed and one below zero."""
    cost = {"grpc": 8e-4, "staged": 3e-4, "farwrite": 2e-5, "local": 0.0}
    rows = [
        _tensor_row(key, consumer, size, 85 + size * each)
        for consumer in ("slice", "reduce_max")
        for size in (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
        for key, each in cost.items()
        if key != "local" or consumer == "reduce_max"
    ]
    rows += [
        _tensor_row(key, consumer, 4 * KIB, added)
        for consumer in ("parallel", "chain")
        for key, added in (("grpc", 900.0), ("farwrite", 200.0), ("local", -3.0))
    ]
    failed = dict.fromkeys(_tensor_row("grpc", "slice", 1 << 31, 1.0))
    failed.update(transport="grpc", fabric="tcp", consumer="slice", size=1 << 31, error="too large")
    return facts("tensor", fabric=None, rounds=5, rows=[*rows, failed])


def p2p() -> Facts:
    """Return a result of ``bench p2p``."""
    rows = []
    for op, op_sizes in (
        ("write", (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)),
        ("read", (8, 4 * KIB, 64 * KIB, MIB, 16 * MIB)),
        ("notify", (0,)),
        ("alias", (MIB,)),
    ):
        for size in op_sizes:
            time, rate = 0.3 + size / 8e3, 8 * size / (size + 5e4) if size else 0.0
            rows.append(
                {
                    **{"fabric": "shm", "op": op, "wait": "poll", "size": size, "lanes": 1},
                    **{"window": 4, "p50_us": time, "p99_us": 2 * time, "gb_s": 2 * rate},
                    **{"gb_s_read": rate, "gb_s_read_spread": [rate * 0.9, rate * 1.1]},
                    **{"limit_p50_us": time * 0.9, "limit_gb_s_read": rate * 1.05, "ratio": 0.95},
                    "ratio_of": "gb_s_read" if size >= MIB and op != "alias" else "p50_us",
                    **{"ratio_unread": 0.97, "target": ">=0.95", "target_met": True, "copies": 1},
                    **{"registrations": 0, "verified": True, "wrong_transfers": 0},
                }
            )
    return facts("p2p", plan={"fabric": "shm", "wait": "poll", "rounds": 5}, rows=rows)


def _peers_row(peer: str, name: str, language: str, size: int | None, slower: float) -> Facts:
    time, rate = (0.2 + (size or 0) / 8e3) * slower, 12.0 / slower
    compared = peer != "limit" and not peer.startswith("farwrite")
    known = size is not None
    return {
        **{"peer": peer, "name": name, "language": language, "size": size, "variant": None},
        **{"p50_us": time if known else None, "p99_us": 2 * time, "gb_s": rate},
        **{"cpu_s_per_gb": 0.3, "copies": None if compared else 1.0},
        "ratio_of": "gb_s" if known and size >= MIB else "p50_us",
        "ratio_to_limit": None if peer == "limit" else ratio_of(1 / slower),
        "of_farwrite": ratio_of(slower / 1.1) if compared and known else None,
        "why": "it has no checks" if slower < 1.1 and compared else None,
        **{"target": 1.0, "target_met": slower >= 1.1, "rounds": 3, "settings": "the best"},
        **{"error": None, "missing": None if known else "no module x", "install": "pip install x"},
    }


def peers() -> Facts:
    """Return a result of ``bench peers``, with a peer that is missing."""
    found = [
        _peers_row(*peer, size, slower)
        for size in (8, 64 * KIB, MIB, 64 * MIB)
        for *peer, slower in (
            ("limit", "raw loop (limit)", "C++", 1.0),
            ("farwrite", "Farwrite", "C++", 1.1),
            ("ucx", "UCX", "C++", 1.05),
            ("farwrite-python", "Farwrite", "Python", 1.1),
            ("shared-memory", "multiprocessing.shared_memory", "Python", 2.0),
            ("ray", "Ray's object store", "Python", 50.0),
        )
    ]
    found.append(_peers_row("zmq", "pyzmq", "Python", None, 1.0))
    return facts("peers", plan={"rounds": 3, "window": 4}, rows=found)


def two_hosts() -> Facts:
    """Return a result of ``bench p2p --peer``."""
    row = {
        **{"op": "write", "size": MIB, "gb_s": 10.5, "gb_s_spread": [10.1, 10.9]},
        **{"single_us": 12.5, "copies": 0, "counters": {"ours": {"copies": 0, "regs": 0}}},
        **{"verified": True, "wrong_words": 0},
    }
    return facts("p2p", channel={"fabric": "verbs", "peer": "10.0.0.1:7400"}, rows=[row])


def memory() -> Facts:
    """Return a result of ``bench memory``."""
    allocation = {"farwrite_ns": 300.0, "malloc_ns": 280.0, "ratio": 1.07, "target": "<=1.1"}
    both = [{**allocation, "touched": touched} for touched in (False, True)]
    return facts(
        "memory",
        allocations=both,
        allocations_tuned_malloc=both,
        first_use={
            **{"bytes": 1 << 30, "farwrite_s": 0.21, "kernel_s": 0.2, "ratio": 1.05},
            "target": "<=1.5",
        },
        copies=copies(),
    )


def copies() -> list[Facts]:
    """Return the throughput of copies by size."""
    return [
        {
            "size": 4096 << (2 * power),
            "gb_s": {"memcpy": 25.0 / (power + 1), "avx2": 20.0 / (power + 1)},
        }
        for power in range(6)
    ]


def box() -> Facts:
    """Return a result of ``bench box``."""
    rows = [
        box_row(LATENCY, "box-shm", bytes=1024, p50_us=1.2, p99_us=2.5),
        box_row(
            *(PUBLISH, "box-shm"),
            **{"workers": 8, "bytes": 100 * MIB, "visible_ms": 40.0, "gb_s": 2.5},
            **{"limit_gb_s": 3.0, "ratio": 1.2, "copies_publisher": 1, "copies_reader": 0},
        ),
        box_row(
            *(BANDWIDTH, "box-shm"),
            **{"workers": 8, "bytes": 10**9, "gb_s": 9.0, "limit_gb_s": 9.5, "ratio": 0.95},
        ),
    ]
    for place, model in enumerate(NETWORKS):
        for transport, cost in (("box-shm", 1.0), ("box-tcp", 3.0), ("mpi", 8.0)):
            comm = cost * (place + 1) * 10
            rows.append(
                box_row(
                    *(EMULATION, transport),
                    **{"model": model, "workers": 8, "bytes": NETWORKS[model].bytes},
                    **{"compute_ms": NETWORKS[model].compute_ms, "comm_ms": comm},
                    **{"spread_ms": [comm * 0.9, comm * 1.2], "variant": "copy"},
                    variants={"copy": comm},
                    ratio_is_bound=False,
                    ratio=None if transport == "mpi" else 8 / cost if place < 3 else 1.01,
                )
            )
    rows.append(
        box_row(
            *(EMULATION, "mpi-shared"), model="vgg16", workers=8, bytes=528, skipped="no memory"
        )
    )
    return facts("box", settings={"rounds": 3, "steps": 3, "mpi": None}, rows=rows)


def _grpc_row(benchmark: str, transport: str, ratio: float | None, **more: Any) -> Facts:
    row: Facts = dict.fromkeys(FIELDS)
    row.update(
        benchmark=benchmark,
        transport=transport,
        scheme="plain",
        mode="non-serialized",
        size=64,
        p50_us=100.0 / (ratio or 1),
        p99_us=250.0,
        gb_s=0.5 * (ratio or 1),
        rpc_s=9000.0 * (ratio or 1),
        copies=None if transport == "tcp" else 0.0,
        cpu_s_per_gb=1.0,
        server_cpu_s_per_gb=0.5 / (ratio or 1),
        peak_bytes={"server": 10 * MIB, "worker": 12 * MIB},
        ratio_to_tcp=ratio,
        reads=False,
    )
    row.update(more)
    return row


def grpc() -> Facts:
    """Return a result of ``bench grpc``, with a row that was skipped."""
    ways = (
        ("tcp", 1.0),
        ("uds", 1.2),
        ("copy", 1.1),
        ("farwrite-shm", 3.0),
        ("farwrite-tcp", 1.02),
    )
    rows = [
        _grpc_row("latency", way, ratio, size=size, p50_us=(80 + size / 2e3) / ratio)
        for size in (64, 64 * KIB, MIB)
        for way, ratio in ways
    ]
    for benchmark in ("latency", "bandwidth", "ps-throughput", "mimic"):
        for scheme in ("uniform", "skew"):
            rows += [_grpc_row(benchmark, *way, scheme=scheme, size=3030040) for way in ways]
    pair = (ways[0], ways[3])
    rows += [_grpc_row("receiver", *way, size=16 * MIB) for way in pair]
    rows += [
        _grpc_row("connect", *way, connection=kind, of_tcp=1 / way[1], of_tcp_spread=[0.3, 1.1])
        for kind in ("first", "new")
        for way in pair
    ]
    rows += [
        _grpc_row(
            *("connect", way, None),
            **{"connection": "idle", "p50_us": None, "p99_us": None, "connections": 1000},
            bytes_of_connection={"server": 5000.0, "worker": 6000.0},
        )
        for way, _ in pair
    ]
    rows += [
        _grpc_row("qps", *way, rpc_type="unary", channels=1, outstanding=1, ratio_spread=[0.9, 1.1])
        for way in pair
    ]
    skipped: Facts = dict.fromkeys(FIELDS)
    skipped.update(
        **{"benchmark": "latency", "transport": "mpi", "scheme": "uniform", "size": 3030040},
        **{"mode": "non-serialized", "skipped": "no OpenMPI"},
    )
    return facts("grpc", settings={"rounds": 3, "seconds": 0.4}, rows=[*rows, skipped])


def step() -> Facts:
    """Return a result of ``bench step``."""
    ways = {"grpc": 1.0, "control off": 0.99, "control on": 0.4, "local": 0.1}
    rows = [
        {
            **{"kind": kind, "way": way, "busy": 0, "fabric": "shm", "step_ms": 1.2 * ratio},
            **{"mean_ms": 1.3 * ratio, "step_ms_rounds": [1.1 * ratio, 1.2 * ratio, 1.4 * ratio]},
            **{"of_grpc": ratio_of(ratio), "of_local": ratio_of(10 * ratio), "cpu_ms": 1.0},
            **{"control": None, "socket_bytes": 100.0, "steps": 300, "rounds": 3, "load": 0.1},
        }
        for kind in ("session", "function", "parameter-server", "eager")
        for way, ratio in ways.items()
    ]
    return facts("step", settings={"rounds": 3, "busy": 0}, rows=rows)


def feed() -> Facts:
    """Return a result of ``bench feed``."""
    rows = []
    for operation in ("feed", "fetch"):
        for size in (4 * KIB, MIB, 64 * MIB):
            for way, ratio in (("grpc", 1.0), ("farwrite", 1.0 if size < MIB else 0.3)):
                took = (0.5 + size / 1e6) * ratio
                rows.append(
                    {
                        **{"operation": operation, "size": size, "way": way, "target": "grpc"},
                        **{"ms": took, "ms_rounds": [took, took * 1.1], "gb_s": size / took / 1e6},
                        **{"of_grpc": ratio_of(ratio), "cpu_ms": 1.0, "by_grpc": None},
                        **{"socket_bytes": 10.0, "steps": 20, "rounds": 2, "load": 0.1},
                    }
                )
    return facts("feed", settings={"sizes": [4 * KIB, MIB], "rounds": 2}, rows=rows)


def collective() -> Facts:
    """Return a result of ``bench collective``."""
    rows = [
        {
            **{"transport": way, "fabric": "shm", "step_ms": 100 * ratio, "gb_s": 0.6 / ratio},
            **{"of_grpc": ratio, "of_grpc_spread": [ratio, ratio], "cpu_ms": 100.0},
            **{"copies": None, "rpcs": None, "socket_bytes": 100.0, "steps": 35},
        }
        for way, ratio in (("grpc", 1.0), ("farwrite", 0.4))
    ]
    settings = {"bytes": 64 * MIB, "rounds": 7, "steps": 5, "fabric": None}
    return facts("collective", settings=settings, rows=rows)


def assign() -> Facts:
    """Return a result of ``bench assign``."""
    rows = [
        {
            **{"way": way, "fabric": "shm", "size": size, "gb_s": rate, "gb_s_rounds": [rate] * 3},
            **{"times_grpc": ratio_of(rate / 0.4), "of_local": ratio_of(rate / 5), "step_ms": 20.0},
            **{"empty_step_ms": 0.4, "cpu_ms": 30.0, "tensors": None, "grpc_tensor_calls": None},
            **{"copies": None, "socket_bytes": 100.0, "steps": 90, "rounds": 9, "load": 0.1},
        }
        for size in (10**7, 10**8)
        for way, rate in (("local", 5.0), ("grpc", 0.4), ("farwrite", 3.5))
    ]
    return facts("assign", settings={"sizes": [10**7, 10**8], "rounds": 9}, rows=rows)


def ablations() -> Facts:
    """Return a result of ``bench ablations``."""
    rows = [
        _tensor_row(way, case, 4 * KIB, (1000.0 if case == "network" else 90.0) / (place + 1))
        for case in ("network", "slice", "parallel", "chain")
        for place, way in enumerate(ABLATIONS)
    ]
    registrations = [
        {"way": way, "transfers_a_step": 32, "registrations_a_step": 0.1, "refused_by_arena": 0}
        for way in ABLATIONS
    ]
    return facts(
        *("ablations",),
        **{"network_bytes": 185 * 10**6, "rows": rows, "registrations": registrations},
        copies=copies(),
    )


def gpu() -> Facts:
    """Return a result of ``bench gpu``."""
    rows = [
        {
            **{"size": size, "operation": operation, "way": way, "gb_s": rate * share},
            "of_limit": None if way.startswith("copy") else ratio_of(share),
            **{"target": None, "target_met": None, "pins": 0, "mappings": 0},
            "gb_s_rounds": [rate * share] * 3,
        }
        for size in (MIB, 64 * MIB)
        for operation, way, rate, share in (
            ("gpu to gpu", "copy", 1500.0, 1.0),
            ("gpu to gpu", "write", 1500.0, 0.9),
            ("gpu to gpu", "alias", 1500.0, 1.0),
            ("gpu to gpu", "torch", 1500.0, 0.8),
            ("gpu to host", "copy to host", 55.0, 1.0),
            ("gpu to host", "write to host", 55.0, 0.95),
        )
    ]
    hand_over = [{"way": "alias", "p50_us": 150.0, "times": 50}]
    return facts("gpu", plan={"rounds": 3}, gpu="a GPU", rows=rows, hand_over=hand_over)


def start() -> Facts:
    """Return a result of ``bench start``."""
    row: Facts = {"way": "farwrite", "rounds_s": [0.1, 0.12], "met": True}
    rows = [
        {
            **row,
            **{"start": "import numpy", "way": "limit", "seconds": 0.09, "beside": ""},
            **{"added_s": 0.09, "target": None, "met": None},
        },
        {
            **row,
            **{"start": "import farwrite", "seconds": 0.11, "beside": "import numpy"},
            **{"added_s": 0.02, "target": "<=0.06"},
        },
    ]
    return facts("start", settings={"rounds": 2}, rows=rows)


def calls() -> Facts:
    """Return a result of ``bench calls``."""
    row: Facts = {
        **{"call": "write", "calls": 2, "python_us": 1.3, "rounds_us": [1.2, 1.5]},
        **{"native_us": 0.3, "added_us": 1.0, "target": "<=2", "met": True},
        "instructions": 5000,
    }
    return facts("calls", settings={"rounds": 2}, rows=[row])


RESULTS: dict[str, Callable[[], Facts]] = {
    each.__name__: each
    for each in (
        *(train, scaling, convergence, ablations, sizes, plan),
        *(tensor, p2p, peers, gpu, box, grpc, step, feed, collective, assign, memory, calls, start),
    )
}


def write_results(folder: Path, *names: str) -> Path:
    """Write a file for each of these benchmarks, or for all, and return the folder."""
    for name in names or RESULTS:
        (folder / f"{name}.json").write_text(json.dumps(RESULTS[name]()), encoding="utf-8")
    return folder
