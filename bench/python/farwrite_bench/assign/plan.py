"""The sizes, the ways and the turns of ``bench assign``."""

from __future__ import annotations

from dataclasses import dataclass

from farwrite_bench.cluster.transport import FARWRITE, GRPC
from farwrite_bench.tensor.plan import LOCAL

ASSIGN = "assign"
"""The name of the step in a `Case`."""
ELEMENT = 4
"""Bytes of an int32, the type that the issues' program adds."""
MEGABYTE = 10**6
"""10^6 bytes, as in the issues, and not 2^20."""
SIZES = (10 * MEGABYTE, 100 * MEGABYTE, 400 * MEGABYTE)
QUICK_SIZES = (1 * MEGABYTE, 10 * MEGABYTE)
WAYS = {each.key: each for each in (LOCAL, GRPC, FARWRITE)}
MEMORY_PER_SIZE = 10.0
"""Memory of all ways together, in vectors: a vector and a variable each, gRPC's buffers, and the
initial values."""


@dataclass(frozen=True)
class AssignPlan:
    """A whole run."""

    sizes: tuple[int, ...]
    """Bytes of the vector."""
    rounds: int
    """Rounds to measure. In each round each way has one turn."""
    steps: int
    """Steps of one turn."""
    fabric: str | None = None
    """The fabric that Farwrite must use; None leaves the choice to Farwrite."""


def in_megabytes(size: int) -> str:
    """Format a size as the issues do."""
    return f"{size / MEGABYTE:g} MB"
