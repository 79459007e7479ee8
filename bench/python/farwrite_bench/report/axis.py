"""Axes of charts: the position of a value, and the values that are labelled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from farwrite.units import format_size


@dataclass(frozen=True)
class Axis:
    """Maps values from `low` to `high` to positions from `start` to `end`.

    A value outside is drawn at the nearer end.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the position of `value`."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, count: int = 5) -> list[float]:
        """Choose about `count` round values; on a logarithmic axis, powers of 10 if it has two."""
        if self.log:
            return self._powers(count)
        step = _round_step((self.high - self.low) / count)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]

    def _powers(self, count: int) -> list[float]:
        first = math.ceil(math.log10(self.low) - 1e-9)
        last = math.floor(math.log10(self.high) + 1e-9)
        if last - first < 1:
            return [
                factor * 10.0**power
                for power in range(first - 1, last + 1)
                for factor in (1, 2, 5)
                if self.low <= factor * 10.0**power <= self.high
            ]
        stride = max(1, round((last - first) / count))
        return [10.0**power for power in range(first, last + 1, stride)]


def around(
    values: Iterable[float], start: float, end: float, log: bool = False, zero: bool = False
) -> Axis:
    """Make an axis that covers all of `values`; with `zero` it also covers 0."""
    known = [value for value in values if value > 0 or not log]
    low, high = (min(known), max(known)) if known else (1.0, 10.0)
    if log:
        low, high = low / 1.15, high * 1.15
        if high / low < 10:
            low, high = low / 2, high * 2
    else:
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        high = high + (high - low) * 0.05 if high > low else low + 1.0
    return Axis(low, high, start, end, log)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.8)


def plain(value: float) -> str:
    """Format a tick without trailing zeros, from 10,000 on as "10k" or "2.5M"."""
    for unit, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.10g}{unit}"
    return f"{value:.10g}"


def short_size(size: float) -> str:
    """Format bytes for an axis, as "64K"."""
    return format_size(int(size)).replace("iB", "").replace(" ", "")


def duration(microseconds: float) -> str:
    """Format a time as "4 µs", "2.5 ms" or "1 s"."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:.4g} {unit}"
    return f"{microseconds:.4g} µs"


Write = Callable[[float], str]
