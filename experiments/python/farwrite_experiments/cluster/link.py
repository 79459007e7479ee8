"""A link of a machine: its rate and its delay, as the command line writes them."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from farwrite.units import format_seconds, parse_seconds

_FACTORS = {"M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class Link:
    """A full-duplex link between a machine and the switch."""

    rate: float
    """Bits per second in each direction."""
    delay: float = 0.0
    """Seconds that a packet takes from one machine to another, beside its rate."""

    @property
    def bytes_s(self) -> float:
        """Bytes per second in each direction."""
        return self.rate / 8

    def __str__(self) -> str:
        unit = "G" if self.rate >= _FACTORS["G"] else "M"
        rate = f"{self.rate / _FACTORS[unit]:g}{unit}bit/s"
        return f"{rate}, {format_seconds(self.delay)}" if self.delay else rate


def parse_link(text: str) -> Link:
    """Convert "10G", "2.5G" or "1G/50us", for an option of the command line."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([MG])(?:bit)?(?:/(.+))?", text.strip())
    if found is None or float(found[1]) == 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a link; write bits per second, and a delay if there is one: 10G,"
            " 500M, 1G/50us"
        )
    try:
        delay = parse_seconds(found[3]) if found[3] else 0.0
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a link: {error}") from None
    return Link(float(found[1]) * _FACTORS[found[2]], delay)
