"""Charts of the peers: time and rate by size, on logarithmic axes, beside the raw loop."""

from __future__ import annotations

from collections.abc import Sequence

from farwrite_bench.peers.rows import Row
from farwrite_bench.report.axis import duration, short_size
from farwrite_bench.report.chart import Series, beside, lines, standalone
from farwrite_bench.report.frame import Look

TITLE = "One transfer between two processes"


def charts(rows: Sequence[Row]) -> list[str]:
    """Draw the time of one transfer and the rate of several, by size."""
    measured = [row for row in rows if row["p50_us"] is not None]
    sizes = sorted({row["size"] for row in measured})
    if not sizes:
        return []
    drawn = []
    for title, value, unit in (
        ("Time until the receiver has read one transfer", "p50_us", "time"),
        ("Rate of transfers that the receiver reads", "gb_s", "GB/s"),
    ):
        look = Look(
            title,
            "bytes of a transfer",
            unit,
            log_x=True,
            log_y=True,
            write_x=short_size,
            ticks_x=sizes,
            **({"write_y": duration} if value == "p50_us" else {}),
        )
        drawn.append(lines(look, _series(measured, value)))
    return drawn


def picture(rows: Sequence[Row]) -> str:
    """Place both charts in one SVG file."""
    return standalone(beside(TITLE, charts(rows)))


def _series(rows: Sequence[Row], value: str) -> list[Series]:
    names = {row["peer"]: _name(row) for row in rows}
    return [
        Series(key, name, sorted((row["size"], row[value]) for row in rows if row["peer"] == key))
        for key, name in names.items()
    ]


def _name(row: Row) -> str:
    """Tell Farwrite's two languages apart; the others have one each."""
    return (
        f"{row['name']}, {row['language']}" if row["peer"].startswith("farwrite") else row["name"]
    )
