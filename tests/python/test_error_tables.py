"""The pages quote error messages by their fixed parts: each part is in the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADER = "| message | cause | what to do |"
PAGES = sorted(page for page in ROOT.glob("docs/**/*.md") if HEADER in page.read_text())


def _sources() -> str:
    """All C++ and Python code as one line, with neighbouring string literals joined."""
    files = [*ROOT.glob("src/**/*.cc"), *ROOT.glob("src/**/*.h"), *ROOT.glob("python/**/*.py")]
    text = "\n".join(path.read_text() for path in sorted(files))
    joined = re.sub(r'(?<!\\)"\s+f?"', "", text).replace('\\"', '"')
    return re.sub(r"\s+", " ", joined)


SOURCES = _sources()


def _quoted(page: Path) -> Iterator[str]:
    """The fixed parts of the messages in the first column of the page's error tables."""
    in_table = False
    for line in page.read_text().splitlines():
        in_table = line == HEADER or (in_table and line.startswith("|"))
        found = re.match(r"\| `([^`]+)`", line) if in_table else None
        if found is not None:
            yield from filter(None, (part.strip(" ()") for part in found[1].split("...")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_quoted_message_is_in_the_sources(page: Path) -> None:
    quoted = list(_quoted(page))
    assert quoted
    assert [text for text in quoted if text not in SOURCES] == []
