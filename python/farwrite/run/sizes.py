"""How large the tensors were that crossed tasks, from the counts of edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from farwrite.plugin.edges import Edge
from farwrite.units import format_size

LIMITS = (1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20, 100 << 20)
"""The sizes between two classes."""
HEADERS = ("size of a tensor", "tensors", "share", "bytes", "share", "ways")


class SizeClass:
    """The tensors of at least `least` bytes and less than `limit`: None for the largest."""

    def __init__(self, least: int, limit: int | None) -> None:
        self.least = least
        self.limit = limit
        self.tensors = 0
        self.bytes = 0
        self.ways: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The range of sizes."""
        if self.limit is None:
            return f"{format_size(self.least)} or more"
        return f"{format_size(self.least)} to {format_size(self.limit)}"

    def facts(self) -> dict[str, Any]:
        """Return the class for JSON."""
        return {
            "least": self.least,
            "limit": self.limit,
            "tensors": self.tensors,
            "bytes": self.bytes,
            "ways": dict(self.ways),
        }


def size_classes(edges: Iterable[Edge]) -> list[SizeClass]:
    """Count the tensors that were sent, by size.

    Every tensor of an edge has the mean size of that edge, which is exact unless the edge's tensors
    differ in size. Control edges carry no tensor and are left out, and so are empty classes.
    """
    ends = (*LIMITS, None)
    classes = [SizeClass(least, limit) for least, limit in zip((0, *LIMITS), ends, strict=True)]
    for edge in edges:
        tensors = sum(edge["ways"].values())
        if tensors == 0 or edge["control"]:
            continue
        mean = edge["bytes"] / tensors
        found = next(each for each in classes if each.limit is None or mean < each.limit)
        found.tensors += tensors
        found.bytes += edge["bytes"]
        found.ways.update(edge["ways"])
    return [each for each in classes if each.tensors]


def cells(classes: list[SizeClass]) -> Iterator[tuple[str, ...]]:
    """Format the classes as the cells below `HEADERS`."""
    tensors = sum(each.tensors for each in classes)
    total = sum(each.bytes for each in classes) or 1
    for each in classes:
        ways = ", ".join(f"{way.replace('_', ' ')} {n:,}" for way, n in sorted(each.ways.items()))
        yield (
            each.name,
            f"{each.tensors:,}",
            f"{each.tensors / tensors:.1%}",
            format_size(each.bytes),
            f"{each.bytes / total:.1%}",
            ways,
        )
