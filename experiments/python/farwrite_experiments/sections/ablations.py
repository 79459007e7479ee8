"""What each part of the design gains."""

from __future__ import annotations

from farwrite_bench.memory import COPIES, copy_chart
from farwrite_bench.report.bars import Bar, Group, bars
from farwrite_bench.report.parts import Card, Facts, Gain, Row, Table, figure, rows_of
from farwrite_bench.tensor.plan import CHAIN, NETWORK, PARALLEL, SLICE
from farwrite_experiments.ablations import HEADERS, cells

TITLE = "Ablations: what each part of the design gains"
LEAD = (
    "AlexNet's variables and gradients, and small tensors, over stock gRPC and over Farwrite with"
    " parts of its design switched off."
)
CASES = {
    NETWORK: "AlexNet's variables and gradients",
    SLICE: "One tensor of 4 KiB",
    PARALLEL: "20 tensors of 4 KiB at once",
    CHAIN: "20 dependent tensors of 256 B",
}
OTHERS = ("grpc", "local")
REGISTRATIONS = ("way", "tensors a step", "registrations a step", "refused by the arena")


def figures(facts: Facts) -> list[str]:
    """Draw the time that each case adds, by way, and the throughput of copies."""
    rows = rows_of(facts)
    drawn = []
    for case, what in CASES.items():
        mine = [row for row in rows if row["consumer"] == case]
        if mine:
            groups = [Group(row["transport"], [_bar(row)]) for row in mine]
            drawn.append(bars(f"{what}: time added to a step", groups))
    return [*drawn, copy_chart(facts["copies"])]


def _bar(row: Row) -> Bar:
    key = row["transport"] if row["transport"] in OTHERS else "farwrite"
    name = {"grpc": "stock gRPC", "local": "one process"}.get(key, "Farwrite")
    value = max(row["added_us"], 0.0) / 1e3
    low, high = (max(end, 0.0) / 1e3 for end in row["added_us_ci"])
    return Bar(key, name, value, f"{figure(value)} ms", (low, high))


def tables(facts: Facts) -> list[Table]:
    """Show all rows, the registrations and the copies."""
    counted = [
        [
            each["way"],
            f"{each['transfers_a_step']:g}",
            f"{each['registrations_a_step']:g}",
            f"{each['refused_by_arena']:g}",
        ]
        for each in facts["registrations"]
    ]
    return [
        ("Ablations", HEADERS, [*cells(facts["rows"])]),
        ("Registrations, whole network", REGISTRATIONS, counted),
        (COPIES.title, COPIES.heads(), COPIES.cells(facts)),
    ]


def cards(_: Facts) -> list[Card]:
    """Return none: the ways without parts of the design are no key figures."""
    return []


def gains(facts: Facts) -> list[Gain]:
    """Compare the time that every way adds with stock gRPC."""
    rows = rows_of(facts)
    stock = {row["consumer"]: row["added_us"] for row in rows if row["transport"] == "grpc"}
    return [
        Gain(
            f"ablations: {CASES.get(row['consumer'], row['consumer'])}, {row['transport']}",
            stock[row["consumer"]] / row["added_us"],
            "stock gRPC",
            "a part of the design is off" if row["transport"] != "shm unified" else "",
        )
        for row in rows
        if row["transport"] not in OTHERS
        and row["added_us"] > 0
        and stock.get(row["consumer"], 0) > 0
    ]
