"""Leaves out what the machine's memory does not allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from farwrite.errors import ResourceExhausted
from farwrite.info import memory_available
from farwrite.units import format_size
from farwrite_bench.record import Record
from farwrite_bench.sizes import MIB

SPARE_BYTES = 256 * MIB
"""Memory for everything but the pools of `affordable_pool`, such as two interpreters."""


def affordable(
    record: Record,
    what: str,
    sizes: Sequence[int],
    bytes_of: Callable[[int], float],
    write: Callable[[int], str] = format_size,
    available: int | None = None,
) -> tuple[int, ...]:
    """Leave out the sizes that need more memory than is available, and note them in the record.

    Parameters
    ----------
    what : str
        What has the size, in messages, such as "a tensor".
    bytes_of : callable
        Returns the memory that a size needs.
    available : int, optional
        Bytes of memory; without it, what the machine has now.

    Raises
    ------
    ResourceExhausted
        If no size is left.
    """
    there = memory_available() if available is None else available
    left = tuple(size for size in sizes if bytes_of(size) <= there)
    if not left:
        least = min(sizes)
        raise ResourceExhausted(
            f"bench {record.benchmark}: {what} of {write(least)} needs"
            f" {bytes_of(least) / 1e9:.1f} GB of memory, and {there / 1e9:.1f} GB are available;"
            " end other programs"
        )
    if dropped := ", ".join(write(size) for size in sizes if size not in left):
        record.notes.append(f"too little memory is available for {dropped}; left out")
    return left


def affordable_pool(record: Record, pool: int, pools: float, available: int | None = None) -> int:
    """Lower `pool` to what memory allows, a whole number of MiB and at least 4, and note it.

    A run needs the memory of `pools` pools.
    """
    there = memory_available() if available is None else available
    most = max(int((there - SPARE_BYTES) / pools) // MIB * MIB, 4 * MIB)
    if most < pool:
        record.notes.append(
            f"the available memory allows a pool of {format_size(most)} instead of"
            f" {format_size(pool)}"
        )
    return min(pool, most)
