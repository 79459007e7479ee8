"""The plug-in's counters, as Python types and as Prometheus text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict, cast

from farwrite import _farwrite
from farwrite.metrics.counter import Counter


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
    staged_device_sends: int
    staged_device_receives: int
    staged_device_bytes: int
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
    call_bodies_read: int
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
    grpc_run_step_calls: int
    grpc_register_graph_calls: int
    grpc_run_graph_calls: int
    grpc_cleanup_graph_calls: int
    grpc_enqueue_calls: int
    grpc_run_component_function_calls: int
    grpc_other_calls: int
    grpc_feeds: int
    grpc_feed_bytes: int
    grpc_fetches: int
    control_calls: int
    grpc_control_calls: int
    grpc_eager_inputs: int
    grpc_eager_input_bytes: int
    session_steps: int
    session_steps_served: int
    grpc_session_steps: int
    waiting_tensors: int
    held_views: int
    fetches: int
    device_copies: int
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
    error_code: str
    """The code of `error`: "INVALID_ARGUMENT" if a variable cannot be read, or "OK"."""


_METRICS = "farwrite_tensorflow_"
# The counters that one metric gathers under a label: prefix, label, help.
_FAMILIES = (
    ("pushes_", "kind", "Tensors pushed to another task, by kind."),
    ("pulls_", "reason", "Tensors left to a pull, by reason."),
    ("dropped_", "reason", "Tensors dropped because their consumer was gone."),
)
# Parts of another counter, or of the other side: not to be added up with their family.
_SINGLE = {"pushes_dead", "pulls_received", "pulls_unpushed"}
_FAMILY_HELP = {f"{_METRICS}{prefix}total": text for prefix, _, text in _FAMILIES}


def _counter(name: str, meaning: str, only_grows: bool) -> Counter:
    for prefix, label, _ in _FAMILIES:
        if name.startswith(prefix) and name not in _SINGLE:
            labels = {label: name.removeprefix(prefix)}
            return Counter(name, meaning, f"{_METRICS}{prefix}total", labels)
    return Counter(name, meaning, f"{_METRICS}{name}{'_total' if only_grows else ''}", {})


COUNTERS: tuple[Counter, ...] = tuple(_counter(*row) for row in _farwrite.plugin_counters())
"""The rows of src/tensorflow/stats/counter_table.h."""


def parse_stats(text: str) -> Stats:
    """Parse the plug-in's JSON."""
    return cast("Stats", json.loads(text))


def prometheus_text(stats: Mapping[str, Any]) -> str:
    """Write `stats` in the Prometheus text exposition format, version 0.0.4."""
    return "".join(f"{line}\n" for line in _lines(stats))


def _lines(stats: Mapping[str, Any]) -> Iterator[str]:
    metrics: dict[str, list[Counter]] = {}
    for counter in COUNTERS:
        metrics.setdefault(counter.metric, []).append(counter)
    for metric, members in metrics.items():
        yield from _header(metric, _FAMILY_HELP.get(metric, members[0].meaning))
        for counter in members:
            yield _sample(metric, stats[counter.name], counter.labels)
    for name, value in stats["landing"].items():
        metric = f"{_METRICS}landing_{name}"
        yield from _header(metric, f"Memory for tensors from other hosts: {name}.")
        yield _sample(metric, value)
    for name, value in stats["arena"].items():
        metric = f"{_METRICS}arena_{name}{'' if name == 'segments' else '_bytes'}"
        yield from _header(metric, f"Registered memory: {name}.")
        yield _sample(metric, value)
    if stats["links"]:
        metric = f"{_METRICS}link_info"
        yield from _header(metric, "The transport to each peer.")
        # Two addresses of one peer may read alike, and one label set may appear only once.
        for labels in dict.fromkeys(tuple(link.items()) for link in stats["links"]):
            yield _sample(metric, 1, dict(labels))


def _header(metric: str, text: str) -> Iterator[str]:
    yield f"# HELP {metric} {text}"
    yield f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}"


def _sample(metric: str, value: int, labels: Mapping[str, object] | None = None) -> str:
    shown = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in (labels or {}).items())
    return f"{metric}{'{' + shown + '}' if shown else ''} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
