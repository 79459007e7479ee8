"""Makes the row of a network from the tensors that crossed tasks in its steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from farwrite.errors import Internal
from farwrite_experiments.cluster.observed import Observed
from farwrite_experiments.networks.network import Network

KB, MB = 1 << 10, 1 << 20

Row = dict[str, Any]


def sizes_of_step(before: Sequence[Observed], after: Sequence[Observed], steps: int) -> list[int]:
    """Return the bytes of each tensor that crossed tasks in one step, the largest first.

    Parameters
    ----------
    before, after : sequence of Observed
        What all tasks had sent before and after the steps.
    steps : int
        The number of steps. Each takes the same edges.
    """
    earlier = {each.edge: each for each in before}
    sizes: list[int] = []
    for edge in after:
        known = earlier.get(edge.edge)
        tensors = edge.tensors - (known.tensors if known else 0)
        moved = edge.bytes - (known.bytes if known else 0)
        if tensors % steps != 0:
            raise Internal(f"bench sizes: {edge.edge} sent {tensors} tensors in {steps} steps")
        if tensors and moved:
            sizes += [moved // tensors] * (tensors // steps)
    return sorted(sizes, reverse=True)


def make_row(network: Network, batch: int, workers: int, sizes: Sequence[int]) -> Row:
    """Make the row of a network. 1 KB is 1024 bytes."""
    total = sum(sizes)
    large = [size for size in sizes if size > MB]
    return {
        "model": network.key,
        "batch": batch,
        "workers": workers,
        "variables": len(network.variables),
        "bytes": network.bytes,
        "sizes": list(sizes),
        "share_over_10KB": round(sum(size > 10 * KB for size in sizes) / len(sizes), 4),
        "share_over_1MB": round(len(large) / len(sizes), 4),
        "bytes_share_over_1MB": round(sum(large) / total, 4),
    }


def overall(rows: Sequence[Row]) -> Mapping[str, float]:
    """Return the shares of all networks' tensors together."""
    sizes = [size for row in rows for size in row["sizes"]]
    large = [size for size in sizes if size > MB]
    return {
        "share_over_10KB": sum(size > 10 * KB for size in sizes) / len(sizes),
        "share_over_1MB": len(large) / len(sizes),
        "bytes_share_over_1MB": sum(large) / sum(sizes),
    }
