"""The sizes of the tensors that cross tasks in a training step."""

from __future__ import annotations

from farwrite_bench.report.axis import short_size
from farwrite_bench.report.chart import Series, lines
from farwrite_bench.report.frame import Look
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure
from farwrite_experiments.sections.networks import name_of

TITLE = "Sizes of the tensors of a training step"
LEAD = "Shares above a size: of the tensors that cross tasks in a step, and of their bytes."
STEPS = [1 << power for power in range(6, 31, 2)]
"""Sizes at which the shares are drawn: 64 B to 1 GiB."""
TICKS = [1 << power for power in (6, 10, 14, 18, 22, 26, 30)]
HEADERS = (
    *("network", "variables", "bytes", "tensors of a step"),
    *("tensors over 10 KB", "tensors over 1 MB", "bytes in those over 1 MB"),
)


def figures(facts: Facts) -> list[str]:
    """Draw a chart for each network."""
    return [_chart(row) for row in facts["rows"] if row["sizes"]]


def _chart(row: Row) -> str:
    sizes = sorted(row["sizes"])
    total = sum(sizes) or 1

    def above(step: int) -> list[int]:
        return [size for size in sizes if size >= step]

    last = next((step for step in STEPS if step > sizes[-1]), STEPS[-1])
    steps = [step for step in STEPS if step <= last]
    look = Look(
        name_of(row["model"]),
        "size of a tensor",
        "% of this size or more",
        log_x=True,
        write_x=short_size,
        ticks_x=[tick for tick in TICKS if tick <= last],
    )
    return lines(
        look,
        [
            Series("tensors", "tensors", [(s, 100 * len(above(s)) / len(sizes)) for s in steps]),
            Series("bytes", "bytes", [(s, 100 * sum(above(s)) / total) for s in steps]),
        ],
    )


def tables(facts: Facts) -> list[Table]:
    """Show a line for each network."""
    return [
        (
            "Sizes of tensors",
            HEADERS,
            [
                [
                    name_of(row["model"]),
                    str(row["variables"]),
                    figure(row["bytes"], 12),
                    str(len(row["sizes"])),
                    f"{row['share_over_10KB']:.0%}",
                    f"{row['share_over_1MB']:.0%}",
                    f"{row['bytes_share_over_1MB']:.0%}",
                ]
                for row in facts["rows"]
            ],
        )
    ]


def cards(_: Facts) -> list[Card]:
    """Return none: sizes compare nothing."""
    return []


def gains(_: Facts) -> list[Gain]:
    """Return none: sizes compare nothing."""
    return []
