"""The part of the page with the papers' own figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from farwrite.run import html_page as page
from farwrite_bench.report.files import Run
from farwrite_bench.report.page import subheading
from farwrite_experiments.papers.ours import measured
from farwrite_experiments.papers.papers import PAPERS, Paper

HEADERS = ("quantity", "paper", "the paper's conditions", "this machine")


def parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make a table for each paper."""
    yield page.heading("What the papers measured")
    yield page.paragraph(
        "The papers measured on other machines, with RDMA networks and GPUs. Their figures and"
        " those of this machine stand beside each other to show what was measured. They cannot be"
        " compared."
    )
    for paper in PAPERS:
        yield from _paper(paper, runs)


def _paper(paper: Paper, runs: Sequence[Run]) -> Iterator[str]:
    yield subheading(paper.title)
    yield page.paragraph(f"{paper.authors}. {paper.conditions}", quiet=True)
    rows = [
        [each.what, each.value, each.conditions or "as above", measured(each.ours, runs)]
        for each in paper.results
    ]
    yield page.table(HEADERS, rows, long=[0, 1, 2, 3])
