"""Transfers on a GPU and between a GPU and host memory."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.gpu.rows import HEADERS, cells
from farwrite_bench.report.axis import short_size
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table

TITLE = "GPU memory"
LEAD = (
    "Two processes share one GPU. The limit is the driver's own copy in one process, which waits"
    " for each copy as Farwrite does."
)
_COLOURS = {
    "copy": "limit",
    "write": "farwrite",
    "alias": "farwrite-python",
    "torch": "gloo",
    "copy to host": "limit",
    "write to host": "farwrite",
    "copy from host": "raw",
    "read from host": "farwrite-python",
}
_NAMES = {
    "copy": "copy in one process (limit)",
    "write": "Farwrite, write",
    "alias": "copy from Farwrite's alias",
    "torch": "copy from PyTorch's shared tensor",
    "copy to host": "copy to host (limit)",
    "write to host": "Farwrite, write to host",
    "copy from host": "copy from host (limit)",
    "read from host": "Farwrite, read from host",
}


def figures(facts: Facts) -> list[str]:
    """Draw the rates by size: on the GPU, and over the bus."""
    rows = facts["rows"]
    on_gpu = [row for row in rows if row["operation"] == "gpu to gpu"]
    over_bus = [row for row in rows if row["operation"] != "gpu to gpu"]
    return [
        _chart("Rate on the GPU", on_gpu),
        _chart("Rate between the GPU and host memory", over_bus),
    ]


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("Transfers", HEADERS, [cells(row) for row in facts["rows"]])]


def cards(facts: Facts) -> list[Card]:
    """Choose the share of the driver's rate at the largest size, and the hand-over."""
    writes = [row for row in facts["rows"] if row["way"] == "write"]
    chosen = [] if not writes else [max(writes, key=lambda row: int(row["size"]))]
    found: list[Card] = [
        (
            f"{row['of_limit']['median']:.0%}",
            f"of the driver's rate by a write of {format_size(row['size'])} on the GPU",
        )
        for row in chosen
    ]
    found += [
        (f"{row['p50_us']:.0f} us", "to hand an array over without a copy")
        for row in facts["hand_over"]
        if row["way"] == "alias"
    ]
    return found


def gains(facts: Facts) -> list[Gain]:
    """Compare the alias with PyTorch's shared tensor."""
    theirs = {row["size"]: row["gb_s"] for row in facts["rows"] if row["way"] == "torch"}
    return [
        Gain(
            f"copy of {format_size(row['size'])} from another process's memory on the GPU",
            row["gb_s"] / theirs[row["size"]],
            "PyTorch's shared tensor",
        )
        for row in facts["rows"]
        if row["way"] == "alias" and row["size"] in theirs
    ]


def _chart(title: str, rows: list[Row]) -> str:
    sizes = sorted({row["size"] for row in rows})
    look = Look(
        title, "bytes of a transfer", "GB/s", log_x=True, log_y=True,
        write_x=short_size, ticks_x=sizes,
    )  # fmt: skip
    ways = [way for way in _NAMES if any(row["way"] == way for row in rows)]
    return lines(
        look,
        [
            Series(
                _COLOURS[way],
                _NAMES[way],
                sorted((row["size"], row["gb_s"]) for row in rows if row["way"] == way),
            )
            for way in ways
        ],
    )
