"""Parses and formats sizes and times."""

from __future__ import annotations

import math

_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}


def parse_size(text: str) -> int:
    """Turn "8", "4K", "64MB", "1G" or "2T" into bytes; the units are powers of 1024.

    Raises
    ------
    ValueError
        If `text` is not a size.
    """
    plain = text.strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (plain[:-1], plain[-1]) if plain and plain[-1] in "kmgt" else (plain, "")
    try:
        size = int(float(number) * _FACTORS[unit])
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a size; write bytes, or 4K, 64M, 1G") from None
    if size < 0:
        raise ValueError(f"{text!r} is negative; write 0 or more bytes")
    return size


def format_size(size: int) -> str:
    """Turn bytes into "8 B", "4 KiB", "64 MiB", "1 GiB" or "2 TiB"."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def parse_seconds(text: str) -> float:
    """Turn "5", "0.5", "20us", "100ms", "5s", "10min" or "1h" into seconds.

    Raises
    ------
    ValueError
        If `text` is not a length of time.
    """
    plain = text.strip().lower()
    number = plain.rstrip("himnsu")
    try:
        seconds = float(number) * _UNITS[plain[len(number) :].strip()]
    except (ValueError, KeyError):
        raise ValueError(f"{text!r} is not a time; write seconds, or 20us, 100ms, 5min") from None
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{text!r} is not a length of time; write 0 or more seconds")
    return seconds


def format_seconds(seconds: float) -> str:
    """Turn seconds into "20 us", "100 ms" or "5 s"."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor:
            return f"{seconds / factor:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"
