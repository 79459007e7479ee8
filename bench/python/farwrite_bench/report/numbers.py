"""How charts and tables write numbers."""

from __future__ import annotations

from collections.abc import Callable

from farwrite.units import format_size

Write = Callable[[float], str]


def plain(value: float) -> str:
    """Format a tick without trailing zeros, from 10,000 on as "10k" or "2.5M"."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.10g}{unit}"
    return f"{value:.10f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:.10g}"


def short_size(size: float) -> str:
    """Format bytes for an axis, as "64K"."""
    return format_size(int(size)).replace("iB", "").replace(" ", "")


def duration(microseconds: float) -> str:
    """Format a time as "4 µs", "2.5 ms" or "1 s"."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.4g} {unit}"
    return f"{microseconds:.4g} µs"


def rate(gigabytes: float) -> str:
    """Format GB/s as "20 kB/s", "3 MB/s" or "1.5 GB/s"."""
    for unit, factor in (("GB", 1.0), ("MB", 1e-3), ("kB", 1e-6)):
        if gigabytes >= factor:
            return f"{gigabytes / factor:.4g} {unit}/s"
    return f"{gigabytes * 1e9:.4g} B/s"
