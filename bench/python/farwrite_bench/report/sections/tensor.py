"""One tensor between two tasks of TensorFlow."""

from __future__ import annotations

from farwrite.units import format_size
from farwrite_bench.report.axis import duration
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, rows_of
from farwrite_bench.table import times
from farwrite_bench.tensor.plan import CHAIN, CONSUMERS, PARALLEL
from farwrite_bench.tensor.tables import HEADERS, added_charts, cells

TITLE = "One tensor between two tasks"
LEAD = (
    "The time that a tensor adds to a step of TensorFlow, beside stock gRPC and beside the same"
    " graph in one process. Both axes are logarithmic; less than 1 µs is drawn at 1 µs."
)
GRPC, FARWRITE = "grpc", "farwrite"
WHAT = {PARALLEL: "20 tensors of 4 KiB at once", CHAIN: "20 dependent tensors of 256 B"}


def figures(facts: Facts) -> list[str]:
    """Draw the added time by size, then the cases of many small tensors."""
    rows = rows_of(facts)
    groups = [
        Group(what, [_bar(row) for row in rows if row["consumer"] == consumer])
        for consumer, what in WHAT.items()
    ]
    shown = [group for group in groups if group.bars]
    small = [bars("Time that many small tensors add to a step", shown)] if shown else []
    return [*added_charts(rows), *small]


def _bar(row: Row) -> Bar:
    value = max(row["added_us"], 0.0)
    return Bar(row["transport"], row["transport"], value, duration(float(f"{value:.3g}")))


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("One tensor between two tasks", HEADERS, [*cells(facts["rows"])])]


def ratios(facts: Facts, theirs: str, ours: str = FARWRITE) -> list[tuple[str, int, float]]:
    """Return how many times less `ours` adds than `theirs`: consumer, size and ratio."""
    added = {
        (row["consumer"], row["size"], row["transport"]): row["added_us"] for row in rows_of(facts)
    }
    return [
        (consumer, size, other / mine)
        for (consumer, size, transport), mine in added.items()
        if transport == ours and mine > 0
        for other in [added.get((consumer, size, theirs))]
        if other is not None and other > 0
    ]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain of each consumer."""
    found = []
    for consumer in CONSUMERS:
        mine = [each for each in ratios(facts, GRPC) if each[0] == consumer]
        if mine:
            _, size, ratio = max(mine, key=lambda each: each[2])
            what = f"less time added by a tensor than over stock gRPC, {consumer}"
            found.append((times(ratio), f"{what}, {format_size(size)}"))
    return found


def gains(facts: Facts) -> list[Gain]:
    """Compare what a tensor adds with stock gRPC, at every size."""
    return [
        Gain(
            f"tensor: {consumer}, {format_size(size)}",
            ratio,
            "stock gRPC",
            "the tensor is small" if size < 1 << 16 else "",
        )
        for consumer, size, ratio in ratios(facts, GRPC)
    ]
