"""Artificial networks: each moves what shows one cost of a transport."""

from __future__ import annotations

from farwrite_experiments.networks.network import Network
from farwrite_experiments.networks.outline import Outline, Value

BULK_SIDE = 4096
"""The side of a square matrix of 64 MiB."""
SMALL_SIDE = 8
GATES = 42


def _bulk(net: Outline, value: Value, classes: int) -> list[Value]:
    value = net.dense(value, "first", BULK_SIDE)
    return [net.dense(value, "second", classes, activated=False)]


def _messages(net: Outline, value: Value, _classes: int) -> list[Value]:
    return [net.recurrent(value, "small", GATES, SMALL_SIDE)]


def _control(net: Outline, value: Value, classes: int) -> list[Value]:
    return [net.dense(value, "only", classes, activated=False)]


BULK = Network("probe_bulk", "two matrices of 64 MiB", (BULK_SIDE,), BULK_SIDE, 0.0, _bulk)
"""Its costs are those of bytes."""
MESSAGES = Network("probe_messages", "126 small variables", (1, SMALL_SIDE), 1, 0.0, _messages)
"""Its costs are those of messages: 84 matrices of 256 bytes, and 42 vectors."""
CONTROL = Network("probe_control", "two numbers", (1,), 1, 0.0, _control)
"""Its costs are those of a step."""
PROBES = {network.key: network for network in (BULK, MESSAGES, CONTROL)}
