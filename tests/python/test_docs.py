"""The pages under docs/: what Markdown would not show as it was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_belongs_to_a_table(page: Path) -> None:
    fenced, above, broken = False, "", []
    lines = page.read_text().splitlines()
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), 1):
        fenced ^= line.startswith("```")
        if line.startswith("|") and not fenced:
            headed = below.startswith("|--") if not above else _cells(line) == _cells(above)
            if not headed:
                broken.append(f"{number}: {line}")
        above = line if line.startswith("|") else ""
    assert not broken


def _cells(row: str) -> int:
    return row.replace("\\|", "").count("|")
