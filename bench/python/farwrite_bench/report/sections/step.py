"""Small steps of four kinds of TensorFlow programs."""

from __future__ import annotations

from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Table, figure, largest, rows_of
from farwrite_bench.step.command import HEADERS, cells

TITLE = "Small steps: what control calls cost"
LEAD = "A step that adds 1 to a number of another task, in four kinds of programs."
COLOURS = {"grpc": "grpc", "control off": "staged", "control on": "farwrite", "local": "local"}
NAMES = {
    "grpc": "stock gRPC",
    "control off": "Farwrite, control calls by gRPC",
    "control on": "Farwrite",
    "local": "one process",
}


def figures(facts: Facts) -> list[str]:
    """Draw the step of each kind."""
    groups: dict[str, list[Bar]] = {}
    for row in rows_of(facts):
        busy = f", {row['busy']} cores busy" if row["busy"] else ""
        groups.setdefault(f"{row['kind']}{busy}", []).append(
            Bar(
                COLOURS[row["way"]],
                NAMES[row["way"]],
                row["step_ms"],
                f"{figure(row['step_ms'])} ms",
                (min(row["step_ms_rounds"]), max(row["step_ms_rounds"])),
            )
        )
    found = [Group(*group) for group in groups.items()]
    return [bars("Median time of a small step", found)] if found else []


def tables(facts: Facts) -> list[Table]:
    """Show all rows."""
    return [("Small steps", HEADERS, [cells(row) for row in facts["rows"]])]


def cards(facts: Facts) -> list[Card]:
    """Choose the largest gain beside stock gRPC."""
    return largest(gains(facts), "faster than stock gRPC")


def gains(facts: Facts) -> list[Gain]:
    """Compare the steps over Farwrite with stock gRPC."""
    return [
        Gain(
            f"small step: {row['kind']}, {row['way']}",
            1 / row["of_grpc"]["median"],
            "stock gRPC",
            "gRPC carries the control calls" if row["way"] == "control off" else "",
        )
        for row in rows_of(facts)
        if row["way"].startswith("control") and row["of_grpc"]
    ]
