"""``farwrite bench box --report``: an HTML page with the targets, the charts and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from farwrite.run import html_page as page
from farwrite_bench.box.networks import NETWORKS
from farwrite_bench.box.plan import BANDWIDTH, BOX_SHM, EMULATION
from farwrite_bench.box.rows import Row
from farwrite_bench.box.tables import TARGET_HEADERS, emulation_charts, tables, targets
from farwrite_bench.report.page import cards, chart_page, charts

TITLE = "The parameter box beside raw limits and MPI"


def report(facts: dict[str, Any]) -> str:
    """Make the page of one run from what its JSON file holds."""
    return chart_page(TITLE, list(_parts(facts)))


def _parts(facts: dict[str, Any]) -> Iterator[str]:
    rows: Sequence[Row] = facts["rows"]
    aimed = targets(rows)
    yield cards(_cards(rows))
    drawn = emulation_charts(rows)
    if drawn:
        yield page.heading("Exposed communication of a step, by the size of the network")
        yield charts(drawn)
    if aimed:
        yield page.heading("Targets")
        yield page.table(TARGET_HEADERS, aimed)
    for title, headers, cells in tables(rows):
        yield page.heading(title)
        # The last column has the reason of a row that was skipped.
        reasons = any(line[-1].startswith("skipped") for line in cells)
        yield page.table(headers, cells, long=[len(headers) - 1] if reasons else [])
    yield page.heading("How it was measured")
    yield page.bullets(facts["notes"])
    yield page.paragraph(_machine(facts), quiet=True)


def _cards(rows: Sequence[Row]) -> list[tuple[str, str]]:
    found = []
    verdicts = [row["target_met"] for row in rows if row["target"] is not None]
    if verdicts:
        found.append((f"{sum(verdicts)} of {len(verdicts)}", "targets met"))
    for row in _largest(rows, EMULATION):
        bound = "at least " if row["ratio_is_bound"] else ""
        found.append(
            (
                f"{bound}{row['ratio']:.1f}x",
                f"less exposed communication than MPI, {NETWORKS[row['model']].name},"
                f" {row['workers']} workers",
            )
        )
    for row in _largest(rows, BANDWIDTH):
        found.append((f"{row['ratio']:.0%}", f"of a raw loop's rate, {row['workers']} processes"))
    return found


def _largest(rows: Sequence[Row], test: str) -> list[Row]:
    """Return the rows of `test` over shared memory with a ratio and the most workers."""
    mine = [
        row
        for row in rows
        if row["test"] == test and row["transport"] == BOX_SHM and row["ratio"] is not None
    ]
    most = max((row["workers"] for row in mine), default=0)
    return [row for row in mine if row["workers"] == most]


def _machine(facts: dict[str, Any]) -> str:
    machine, settings = facts["machine"], facts["settings"]
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, Linux {machine['kernel']}, Python"
        f" {machine['python']}, Farwrite {machine['farwrite']}, copy kernel"
        f" {machine['copy_kernel']}. Load before the run: {', '.join(map(str, facts['load']))}."
        f" Rounds: {settings['rounds']}; steps of a turn: {settings['steps']}. MPI:"
        f" {settings['mpi'] or 'not measured'}."
    )
