"""The plug-in's counters, as Python types and as Prometheus text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, cast


class Link(TypedDict):
    """The transport of the tensors to one peer."""

    peer: str
    transport: str
    """"farwrite", "grpc", or "pending" before the first tensor."""
    fabric: str
    reason: str
    """Why this fabric was chosen, or why Farwrite was not."""


class Arena(TypedDict):
    """Registered memory, in bytes, and its number of segments.

    The bytes of `held_back` were freed but are not reused yet, because a forked child may still
    read them.
    """

    limit: int
    reserved: int
    used: int
    peak_used: int
    segments: int
    held_back: int


class Landing(TypedDict):
    """Memory for tensors from other hosts: slots, slots that hold a tensor, and bytes."""

    slots: int
    held: int
    bytes: int


class Stats(TypedDict):
    """Counts of this process since the plug-in was loaded or its counters were reset.

    docs/reference/tensorflow.md describes each. The fields from `waiting_tensors` on are current
    values; a reset leaves them unchanged.
    """

    pushes_inline: int
    pushes_dead: int
    pushes_alias: int
    pushes_landed: int
    pushes_serialized: int
    pushes_pull: int
    pushes_loopback: int
    zero_copy_tensors: int
    staged_foreign_memory: int
    staged_received: int
    staged_lent_again: int
    staged_unaligned: int
    snapshot_tensors: int
    broke_annotations: int
    in_place_copies: int
    copies: int
    bytes_pushed: int
    bytes_copied: int
    received: int
    received_early: int
    landed: int
    offers_without_slot: int
    slots_opened: int
    slots_refused: int
    offers_read: int
    bytes_read: int
    read_allocations: int
    pulls_received: int
    pulls_no_memory: int
    pulls_device_memory: int
    pulls_stock_peer: int
    pulls_backlog: int
    route_questions: int
    pulls_unpushed: int
    collective_pushes: int
    collective_bytes: int
    collective_staged: int
    collective_copies: int
    collective_pulls: int
    collective_withdrawals: int
    dropped_gone_step: int
    dropped_dead_peer: int
    leases_out: int
    leases_returned: int
    copy_on_write: int
    arena_refusals: int
    traced_allocations: int
    grpc_recv_tensor_calls: int
    grpc_recv_tensor_bytes: int
    grpc_recv_buf_calls: int
    grpc_recv_buf_bytes: int
    grpc_feeds: int
    grpc_feed_bytes: int
    grpc_fetches: int
    grpc_eager_inputs: int
    grpc_eager_input_bytes: int
    waiting_tensors: int
    held_views: int
    fetches: int
    tracing: int
    sent_sites: int
    held_copies: int
    held_copy_bytes: int
    landing: Landing
    arena: Arena
    links: list[Link]


class Description(TypedDict):
    """The versions and the state of the loaded plug-in."""

    farwrite_version: str
    tensorflow_version: str
    allocator: str
    """"unified", "traced", "off", or "late": loaded after TensorFlow's first allocation."""
    reason: str
    """Why the allocator is not unified; empty if it is."""
    error: str
    """Why the plug-in is not in use; empty if it is in use."""


GAUGES = {
    error_code: str
    """The code of `error`: "INVALID_ARGUMENT" if a variable cannot be read, or "OK"."""
    "waiting_tensors": "Tensors that arrived and were not requested yet.",
    "held_views": "Current views of peers' memory.",
    "fetches": "Current reads of tensors from other hosts.",
    "tracing": "1 while the plug-in traces which operations allocate the tensors that are sent.",
    "sent_sites": "Allocation sites whose tensors are sent.",
    "held_copies": "Staged copies kept for reuse.",
    "held_copy_bytes": "Bytes of staged copies that are kept or in use.",
}

# The counters that one metric gathers under a label: prefix, metric, label, help.
_FAMILIES = (
    ("pushes_", "pushes", "kind", "Tensors pushed to another task, by kind."),
    ("pulls_", "pulls", "reason", "Tensors left to a pull, by reason."),
    ("dropped_", "dropped", "reason", "Tensors dropped because their consumer was gone."),
)
# Parts of another counter, or of the other side: not to be added up with their family.
_SINGLE = {"pushes_dead", "pulls_received"}


def parse_stats(text: str) -> Stats:
    """Parse the plug-in's JSON."""
    return cast("Stats", json.loads(text))


def prometheus_text(stats: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    """Write `stats` in the Prometheus text exposition format, version 0.0.4.

    `meanings` are the HELP lines of the counters.
    """
    return "".join(f"{line}\n" for line in _lines(stats, {**meanings, **GAUGES}))


def _lines(stats: Mapping[str, Any], meanings: Mapping[str, str]) -> Iterator[str]:
    rest = {name: value for name, value in stats.items() if isinstance(value, int)}
    for prefix, family, label, text in _FAMILIES:
        members = [name for name in rest if name.startswith(prefix) and name not in _SINGLE]
        if members:
            yield from _header(f"{family}_total", "counter", text)
        for name in members:
            value = rest.pop(name)
            yield _sample(f"{family}_total", value, {label: name.removeprefix(prefix)})
    for name, value in rest.items():
        kind = "gauge" if name in GAUGES else "counter"
        metric = name if name in GAUGES else f"{name}_total"
        yield from _header(metric, kind, meanings[name])
        yield _sample(metric, value)
    for name, value in stats.get("landing", {}).items():
        yield from _header(
            f"landing_{name}", "gauge", f"Memory for tensors from other hosts: {name}."
        )
        yield _sample(f"landing_{name}", value)
    for name, value in stats.get("arena", {}).items():
        metric = "arena_segments" if name == "segments" else f"arena_{name}_bytes"
        yield from _header(metric, "gauge", f"Registered memory: {name}.")
        yield _sample(metric, value)
    links = stats.get("links", [])
    if links:
        yield from _header("link_info", "gauge", "The transport to each peer.")
        # Two addresses of one peer may read alike, and one label set may appear only once.
        for labels in dict.fromkeys(tuple(link.items()) for link in links):
            yield _sample("link_info", 1, dict(labels))


def _header(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP farwrite_tensorflow_{name} {text}"
    yield f"# TYPE farwrite_tensorflow_{name} {kind}"


def _sample(name: str, value: int, labels: Mapping[str, object] | None = None) -> str:
    shown = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in (labels or {}).items())
    return f"farwrite_tensorflow_{name}{'{' + shown + '}' if shown else ''} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
