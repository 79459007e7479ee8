"""Ratios of figures that were measured in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def ratio_of_rounds(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Divide round by round; return the median, the lowest and the highest ratio."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "median": round(statistics.median(ratios), 3),
        "low": round(min(ratios), 3),
        "high": round(max(ratios), 3),
    }
