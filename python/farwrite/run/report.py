"""The summary of ``farwrite run``: a text table, and the same facts as JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast

from farwrite.plugin.edges import Edge, merge
from farwrite.run.child import Run
from farwrite.run.sizes import HEADERS as SIZE_HEADERS
from farwrite.run.sizes import cells as size_cells
from farwrite.run.sizes import size_classes
from farwrite.run.summary import Summary
from farwrite.units import format_size

_KINDS = ("inline", "alias", "serialized", "pull", "loopback")
_COPIES = (
    "staged_foreign_memory",
    "staged_received",
    "staged_unaligned",
    "snapshot_tensors",
    "in_place_copies",
    "collective_staged",
    "collective_copies",
)
_REASONS = {
    "pulls_no_memory": "no room in registered memory or the peer's quota",
    "pulls_device_memory": "collective whose tensor is not in host memory",
    "pulls_stock_peer": "peer without the plug-in, or not reachable by it",
    "pulls_backlog": "the receiver had not yet requested 64 MiB of earlier tensors",
    "pulls_unpushed": "requested by RPC: the sender could not push",
    "staged_foreign_memory": "staged: allocated outside registered memory",
    "staged_received": "staged: received from another task and forwarded",
    "staged_unaligned": "staged: slice with an alignment that the receiver cannot use",
    "arena_refusals": "allocations that fell back to malloc",
    "broke_annotations": "tensor with a shape that breaks its annotation",
    "dropped_dead_peer": "sent to a dead peer",
}
UNENDED = "Killed, or still running: the last counters and edges of these processes are missing"
_NO_TENSORFLOW = (
    "no process imported TensorFlow with Farwrite's hook (python -S, -E and -I skip the hook,"
    " and a program skips it if it replaces PYTHONPATH)"
)


def edges_of(run: Run) -> list[Edge]:
    """Merge the edges that the processes recorded."""
    return merge([cast("list[Edge]", process["edges"]) for process in run.processes])


def counters(run: Run) -> Counter[str]:
    """Add up the plug-in's counters over all processes."""
    total: Counter[str] = Counter()
    for process in run.processes:
        total.update({k: v for k, v in process["stats"].items() if isinstance(v, int)})
    return total


def fallbacks(run: Run) -> list[str]:
    """Return one line for each fallback, with its cause. A stock run has none."""
    if run.transport == "grpc":
        return []
    if not run.processes:
        return [_NO_TENSORFLOW]
    found: Counter[str] = Counter()
    for process in run.processes:
        if not process["loaded"]:
            found[f"plug-in not loaded: {process['reason'] or 'reason unknown'}"] += 1
        allocator = process["description"].get("allocator", "unified")
        if allocator not in ("unified", "traced"):
            found[f"allocation {allocator}: {process['description'].get('reason', '')}"] += 1
        for link in process["stats"].get("links", []):
            if link["transport"] == "grpc":
                found[f"peer {link['peer']} over gRPC: {link['reason']}"] += 1
    total = counters(run)
    lines = [
        f"{text} ({times} process{'' if times == 1 else 'es'})" for text, times in found.items()
    ]
    lines += [f"{total[name]:,} x {text}" for name, text in _REASONS.items() if total[name]]
    return lines


def first_difference(left: Sequence[str], right: Sequence[str]) -> dict[str, Any] | None:
    """Return number and texts of the first line that differs, or None if all are equal."""
    for number, (mine, other) in enumerate(zip_longest(left, right), 1):
        if mine != other:
            return {"line": number, "grpc": mine, "farwrite": other}
    return None


def as_json(command: Sequence[str], runs: Sequence[Run]) -> dict[str, Any]:
    """Return all facts of the runs, for JSON."""
    facts: dict[str, Any] = {"command": list(command), "runs": [_run_json(run) for run in runs]}
    if len(runs) == 2 and runs[0].output is not None and runs[1].output is not None:
        difference = first_difference(runs[0].output, runs[1].output)
        facts["output"] = {"equal": difference is None, "first_difference": difference}
        facts["speedup"] = runs[0].wall_seconds / runs[1].wall_seconds
    return facts


def _run_json(run: Run) -> dict[str, Any]:
    return {
        "transport": run.transport,
        "wall_seconds": round(run.wall_seconds, 3),
        "exit_status": run.exit_status,
        "socket_bytes_sent": _socket_bytes(run),
        "peak_memory": _peak(run),
        "counters": dict(counters(run)),
        "fallbacks": fallbacks(run),
        "without_end": [process["pid"] for process in unended(run)],
        "edges": edges_of(run),
        "sizes": [each.facts() for each in size_classes(edges_of(run))],
        "processes": list(run.processes),
    }


def table(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the lines of the table, which has one column for each run."""
    yield ""
    if not any(run.processes for run in runs):
        yield f"  {_NO_TENSORFLOW}"
        return
    for name, cells in rows(runs):
        yield f"  {name:<34}" + "".join(f"{cell:>16}" for cell in cells)
    for run in runs:
        lines = fallbacks(run)
        if run.transport == "farwrite":
            yield ""
            yield "  Fallbacks and their causes" if lines else "  Fallbacks: none"
        for line in lines:
            yield f"    {line}"
        missing = unended(run)
        if missing:
            yield ""
            yield f"  {UNENDED}"
        yield from (f"    {name}" for name in process_names(missing))
        yield from _sizes(run)
    if len(runs) == 2 and runs[0].output is not None and runs[1].output is not None:
        yield ""
        yield from _agreement(runs[0].output, runs[1].output)


def rows(runs: Sequence[Run]) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each figure and one cell for each run. The first row names the runs."""
    totals = [counters(run) for run in runs]
    # The plug-in counts, so of a stock run only what the kernel saw is known.
    counted = [any(process["loaded"] for process in run.processes) for run in runs]

    def row(name: str, *keys: str, size: bool = False) -> tuple[str, list[str]]:
        sums = [sum(total[key] for key in keys) for total in totals]
        shown = [format_size(value) if size else f"{value:,}" for value in sums]
        return name, [text if known else "-" for text, known in zip(shown, counted, strict=True)]

    yield "", ["stock gRPC" if run.transport == "grpc" else "Farwrite" for run in runs]
    yield "wall time", [f"{run.wall_seconds:.2f} s" for run in runs]
    yield "sent through sockets", [format_size(_socket_bytes(run)) for run in runs]
    yield "largest process, peak memory", [format_size(_peak(run)) for run in runs]
    yield "processes with TensorFlow", [str(len(run.processes)) for run in runs]
    if not any(counted):
        return
    yield row("tensor bytes pushed", "bytes_pushed", size=True)
    for kind in _KINDS:
        yield row(f"  tensors pushed, {kind}", f"pushes_{kind}")
    yield row("tensors read over tcp", "offers_read")
    yield row("  bytes", "bytes_read", size=True)
    yield row("collectives: parts pushed", "collective_pushes")
    yield row("  bytes", "collective_bytes", size=True)
    yield row("copies of tensors", "copies")
    for name in _COPIES:
        yield row(f"  {name.replace('_', ' ')}", name)
    yield row("bytes copied", "bytes_copied", size=True)
    yield row("variables copied on write", "copy_on_write")
    yield row("copied out of devices' memory", "staged_device_sends")
    yield row("copied into devices' memory", "staged_device_receives")
    yield row("  bytes", "staged_device_bytes", size=True)
    yield row("left to gRPC: RecvTensor calls", "grpc_recv_tensor_calls")
    yield row("  bytes", "grpc_recv_tensor_bytes", size=True)
    yield row("left to gRPC: RecvBuf calls", "grpc_recv_buf_calls")
    yield row("  bytes", "grpc_recv_buf_bytes", size=True)
    yield row("left to gRPC: feeds", "grpc_feeds")
    yield row("  bytes", "grpc_feed_bytes", size=True)
    yield row("left to gRPC: fetches", "grpc_fetches")
    yield row("left to gRPC: control calls", "grpc_control_calls")
    yield row("left to gRPC: eager inputs", "grpc_eager_inputs")
    yield row("  bytes", "grpc_eager_input_bytes", size=True)


def unended(run: Run) -> list[Summary]:
    """Return the processes with the plug-in whose last counters are missing.

    A process that only measures, as of a stock run, has no counters.
    """
    return [process for process in run.processes if process["loaded"] and not process["ended"]]


def process_names(processes: Sequence[Summary]) -> list[str]:
    """Return for each process its number and the first words of its command line."""
    return [
        f"process {process['pid']}: {' '.join(map(os.path.basename, process['arguments'][:3]))}"
        for process in processes
    ]


def _sizes(run: Run) -> Iterator[str]:
    classes = size_classes(edges_of(run))
    if not classes:
        return
    yield ""
    yield "  Tensors between tasks, by size"
    for name, *numbers, ways in (SIZE_HEADERS, *size_cells(classes)):
        yield f"    {name:<22}" + "".join(f"{number:>12}" for number in numbers) + f"  {ways}"


def _agreement(stock: Sequence[str], ours: Sequence[str]) -> Iterator[str]:
    difference = first_difference(stock, ours)
    if difference is None:
        yield f"  The program's output: equal ({len(stock):,} lines)"
        return
    yield f"  The program's output: differs, first in line {difference['line']}"
    for name in ("grpc", "farwrite"):
        text = difference[name]
        yield f"    {name:<9} {'(ended before)' if text is None else text}"


def _socket_bytes(run: Run) -> int:
    return sum(process["socket_bytes_sent"] for process in run.processes)


def _peak(run: Run) -> int:
    return max((process["peak_memory"] for process in run.processes), default=0)
