"""Ratios of figures that were measured in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def rounded(ratio: float) -> float:
    """Keep three decimals, and three digits of a small ratio: a reader may divide by it."""
    return round(ratio, 3) if ratio >= 1 else float(f"{ratio:.3g}")


def ratio_of_rounds(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Divide round by round; return the median, the lowest and the highest ratio."""
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {
        "median": rounded(statistics.median(ratios)),
        "low": rounded(min(ratios)),
        "high": rounded(max(ratios)),
    }
