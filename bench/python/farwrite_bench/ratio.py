"""Figures of several rounds, and ratios of figures that were measured in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np


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


def digits(value: float) -> float:
    """Round to four significant digits, because no run repeats more of them."""
    return float(f"{value:.4g}")


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that so large a share of all does not exceed."""
    return float(np.percentile(samples, 100 * share, method="inverted_cdf"))
