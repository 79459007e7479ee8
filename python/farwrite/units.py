"""Sizes as people write them."""

from __future__ import annotations

_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def parse_size(text: str) -> int:
    """Turn "8", "4K", "64MB" or "1G" into bytes; K, M and G are powers of 1024.

    Raises
    ------
    ValueError
        If `text` is no size.
    """
    plain = text.strip().lower().removesuffix("b").removesuffix("i")
    number, unit = (plain[:-1], plain[-1]) if plain and plain[-1] in "kmg" else (plain, "")
    try:
        size = int(float(number) * _FACTORS[unit])
    except ValueError:
        raise ValueError(f"{text!r} is not a size; write bytes, or 4K, 64M, 1G") from None
    if size < 0:
        raise ValueError(f"{text!r} is negative")
    return size


def format_size(size: int) -> str:
    """Turn bytes into "8 B", "4 KiB", "64 MiB" or "1 GiB"."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"
