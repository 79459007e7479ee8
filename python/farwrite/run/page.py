"""``farwrite run --report``: an HTML page with the figures and the edges of a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from farwrite.plugin.edges import HEADERS, Edge, cells
from farwrite.run import html_page as page
from farwrite.run.child import Run
from farwrite.run.report import UNENDED, edges_of, fallbacks, process_names, rows, unended
from farwrite.run.sizes import HEADERS as SIZE_HEADERS
from farwrite.run.sizes import cells as size_cells
from farwrite.run.sizes import size_classes

SHOWN = 25
"""Number of edges shown before the folded rest."""
_INDENT = "\N{EM SPACE}"
_LONG = tuple(HEADERS.index(name) for name in ("tensor", "consumer", "ways", "why"))


def html(command: Sequence[str], runs: Sequence[Run]) -> str:
    """Return the HTML of the page."""
    return page.page(f"farwrite run -- {shlex.join(command)}", list(_parts(runs)))


def _parts(runs: Sequence[Run]) -> Iterator[str]:
    (_, names), *figures = rows(runs)
    yield page.table(
        ("", *names), [(name.replace("  ", _INDENT), *texts) for name, texts in figures]
    )
    for run in runs:
        if run.transport != "farwrite":
            continue
        yield page.heading("Fallbacks and their causes")
        lines = fallbacks(run)
        yield page.bullets(lines) if lines else page.paragraph("None.")
        missing = unended(run)
        if missing:
            yield page.heading(UNENDED)
            yield page.bullets(process_names(missing))
        classes = size_classes(edges_of(run))
        if classes:
            yield page.heading("Tensors between tasks, by size")
            yield page.table(SIZE_HEADERS, list(size_cells(classes)))
        yield page.heading("Edges between tasks")
        yield from _edges(edges_of(run))
        left_out = sum(process["edges_left_out"] for process in run.processes)
        if left_out:
            yield page.paragraph(f"{left_out:,} more edges, with fewer bytes, were left out.", True)


def _edges(edges: Sequence[Edge]) -> Iterator[str]:
    if not edges:
        yield page.paragraph("No edges.")
        return
    yield page.paragraph(
        "The edges with the most bytes come first. Static: TensorFlow infers the whole shape, or"
        " the program pins it. Bounded: the program gives the largest shape. Dynamic: neither."
        " Observed: no graph names the edge, for example an eager copy.",
        quiet=True,
    )
    drawn = [cells(edge) for edge in edges]
    yield page.table(HEADERS, drawn[:SHOWN], long=_LONG)
    if len(drawn) > SHOWN:
        rest = page.table(HEADERS, drawn[SHOWN:], long=_LONG)
        yield page.folded(f"{len(drawn) - SHOWN} more edges", rest)
