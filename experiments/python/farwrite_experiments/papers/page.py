"""The part of the page with the papers' own figures, which ``papers.json`` has.

docs/explanation/papers.md names the papers, and the part of Farwrite that follows each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farwrite.run import html_page as page
from farwrite_bench.report.files import Run
from farwrite_bench.report.page import subheading
from farwrite_experiments.papers.ours import Wanted, measured

HEADERS = ("quantity", "paper", "the paper's conditions", "this machine")


@dataclass(frozen=True)
class Result:
    """A figure of a paper."""

    what: str
    value: str
    conditions: str
    """What differs from the conditions of the whole paper."""
    ours: Wanted


@dataclass(frozen=True)
class Paper:
    """A paper, the conditions of all of its figures, and the figures."""

    title: str
    authors: str
    conditions: str
    results: tuple[Result, ...]


PAPERS = tuple(
    Paper(**{**paper, "results": tuple(Result(*result) for result in paper["results"])})
    for paper in json.loads(Path(__file__).with_name("papers.json").read_text(encoding="utf-8"))
)


def parts(runs: Sequence[Run]) -> Iterator[str]:
    """Make a table for each paper."""
    yield page.heading("What the papers measured")
    yield page.paragraph(
        "The papers measured on other machines, with RDMA networks and GPUs. Their figures and"
        " those of this machine stand beside each other to show what was measured. They cannot be"
        " compared."
    )
    for paper in PAPERS:
        yield subheading(paper.title)
        yield page.paragraph(f"{paper.authors}. {paper.conditions}", quiet=True)
        rows = [
            [each.what, each.value, each.conditions or "as above", measured(each.ours, runs)]
            for each in paper.results
        ]
        yield page.table(HEADERS, rows, long=[0, 1, 2, 3])
