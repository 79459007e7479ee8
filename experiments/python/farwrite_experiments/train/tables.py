"""Shows the rows as a table, and what they say in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from farwrite_bench.cluster.transport import FARWRITE, STAGED
from farwrite_bench.table import times
from farwrite_experiments.networks.network import NETWORKS
from farwrite_experiments.rpc_over_fabric import RPC_OVER_FABRIC
from farwrite_experiments.train.plan import DATA
from farwrite_experiments.train.rows import CASE, Row, gain, ratio_text

HEADERS = (
    "model",
    "batch",
    "transport",
    "fabric",
    "step ms",
    "compute ms",
    "comm ms",
    "95 % interval",
    "less",
    "interval",
    "samples/s",
    "x",
    "copies",
    "registrations",
    "requests",
    "cpu s",
    "socket MB",
)


def cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """Format the rows as the cells below `HEADERS`."""
    for row in rows:
        yield (
            _model(row),
            str(row["batch"]),
            row["transport"],
            row["fabric"],
            f"{row['step_ms']:.1f}",
            _known(row["compute_ms"]),
            f"{row['comm_ms']:.1f}",
            "{:.1f} to {:.1f}".format(*row["comm_ms_ci"]),
            *_less(row["of_grpc"]),
            f"{row['samples_s']:.1f}",
            _known(row["speedup"]),
            _known(row["copies_per_step"]),
            _known(row["registrations_per_step"]),
            _known(row["requests_per_step"]),
            f"{row['cpu_s_per_step']:.3f}",
            f"{row['socket_bytes_per_step'] / 1e6:.1f}",
        )


def sentences(rows: Sequence[Row]) -> Iterator[str]:
    """Compare Farwrite with rpc-over-fabric and with one sender copy, over the same fabric."""
    for row in rows:
        if row["transport"] != FARWRITE.key:
            continue
        for other, what in ((RPC_OVER_FABRIC.key, "rpc-over-fabric"), (STAGED.key, "one copy")):
            beside = next((each for each in rows if _is_beside(each, row, other)), None)
            ratio = None if beside is None else gain(row, beside)
            if ratio is not None:
                name = NETWORKS[row["model"]].name
                tasks = f"{row['servers']}+{row['workers']}"
                yield (
                    f"{name}, {tasks}, batch {row['batch']}, {row['fabric']}: Farwrite trains"
                    f" {100 * (ratio - 1):+.0f} % samples/s against {what}."
                )


def _is_beside(each: Row, row: Row, transport: str) -> bool:
    return each["transport"] == transport and all(
        each[name] == row[name] for name in (*CASE, "fabric")
    )


def _model(row: Row) -> str:
    workers = "" if row["mode"] == DATA else f", {row['mode']}"
    way = "" if row["sync"] else ", async"
    return f"{row['model']}{workers}{way}, {row['servers']}+{row['workers']}"


def _less(of_grpc: dict[str, Any] | None) -> tuple[str, str]:
    if of_grpc is None:
        return "-", "-"
    if of_grpc["high"] is None:
        return ratio_text(of_grpc), "-"
    return ratio_text(of_grpc), f"{times(of_grpc['low'])} to {times(of_grpc['high'])}"


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
