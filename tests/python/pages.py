"""The Markdown pages of the repository, and the code blocks that they show.

A comment on the line before a block says what the tests do with it:

    <!-- block: save NAME -->
        save it under NAME and run it together with the page's other programs
    <!-- block: fragment of examples/FILE -->
        the lines of the block stand in FILE, which has its own test
    <!-- block: not run: REASON -->
        leave it out, for one of the reasons in NOT_RUN
    <!-- block: printed by NAME -->
        a text block: the program of that name, or "this page" for the blocks without a comment,
        must print these lines; with ", in any order" not one after the other

Without such a comment, the Python blocks of one page run in order, as one program.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "tests", "examples", "bench", "tools")
PAGES = sorted(
    page
    for page in (
        *ROOT.glob("*.md"),
        *(page for name in FOLDERS for page in ROOT.glob(f"{name}/**/*.md")),
    )
    if not page.is_symlink()
)

NOT_RUN = {
    "needs a GPU",
    "needs an RDMA adapter",
    "needs a second host",
    "needs root",
    "needs Kubernetes",
    "code of another library",
}

_FENCE = re.compile(r"^( *)(```+)(\S*)[^`]*$")
_ANY_ORDER = ", in any order"
_MARKER = re.compile(r"^ *<!-- block: (.*?) -->$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of its first line of code, from 1."""
    language: str
    text: str
    marker: str
    """The comment before it, without "block:"; "" without one."""

    @property
    def saved_as(self) -> str | None:
        """The file name of a program."""
        return self.marker.removeprefix("save ") if self.marker.startswith("save ") else None

    @property
    def fragment_of(self) -> str | None:
        """The file that holds these lines."""
        start = "fragment of "
        return self.marker.removeprefix(start) if self.marker.startswith(start) else None

    @property
    def not_run(self) -> str | None:
        """The reason why no test runs it."""
        start = "not run: "
        return self.marker.removeprefix(start) if self.marker.startswith(start) else None

    @property
    def printed_by(self) -> str | None:
        """The program that prints these lines, or "this page"."""
        start = "printed by "
        name = self.marker.removesuffix(_ANY_ORDER).removeprefix(start)
        return name if self.marker.startswith(start) else None

    def is_part_of(self, output: str) -> bool:
        """Whether the output has these lines: one after the other, unless the marker says not."""
        printed, shown = output.splitlines(), self.text.splitlines()
        if self.marker.endswith(_ANY_ORDER):
            return not Counter(shown) - Counter(printed)
        starts = range(len(printed) - len(shown) + 1)
        return any(printed[start : start + len(shown)] == shown for start in starts)

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found = []
    number = 0
    while number < len(lines):
        opened = _FENCE.match(lines[number])
        number += 1
        if opened is None:
            continue
        start = number
        while lines[number].strip() != opened[2]:
            number += 1
        text = textwrap.dedent("\n".join(lines[start:number])) + "\n"
        marked = _MARKER.match(lines[start - 2]) if start >= 2 else None
        found.append(Block(page, start + 1, opened[3], text, marked[1] if marked else ""))
        number += 1
    return found


def prose_of(page: Path) -> list[tuple[int, str]]:
    """The lines of a page outside its blocks, numbered from 1."""
    lines = page.read_text(encoding="utf-8").splitlines()
    inside: set[int] = set()
    for block in blocks_of(page):
        inside.update(range(block.line - 1, block.line + block.text.count("\n") + 1))
    return [(number, line) for number, line in enumerate(lines, 1) if number not in inside]


def marker_lines(page: Path) -> list[int]:
    """The lines that are markers, numbered from 1."""
    return [number for number, line in prose_of(page) if line.strip().startswith("<!-- block:")]
