"""Checks that pages, comments and docstrings have none of the wordings of tools/wordings.txt.

    python tools/check_wording.py [FILE...]

Each line of wordings.txt has a pattern and what to write instead. Code, string literals and names
are not looked at: neither ``code`` in backticks, nor a fenced block of a page.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORDINGS = Path(__file__).with_name("wordings.txt")
CODE = re.compile(r"``.*?``|`[^`]*`")
C_COMMENT = re.compile(r"(?:^|\s)//.*")
SHELL_COMMENT = re.compile(r"(?:^|\s)#(?!!).*")


class Wording(NamedTuple):
    """A wording that no text has."""

    pattern: re.Pattern[str]
    instead: str


class Prose(NamedTuple):
    """A part of a line that people read."""

    line: int
    column: int
    text: str


def wordings() -> list[Wording]:
    """Read the list: a pattern, two blanks or more, and the advice."""
    lines = WORDINGS.read_text(encoding="utf-8").splitlines()
    pairs = [re.split(r"  +", line, maxsplit=1) for line in lines if line and line[0] != "#"]
    return [Wording(re.compile(rf"\b(?:{p})\b", re.IGNORECASE), i) for p, i in pairs]


def prose(path: Path) -> Iterator[Prose]:
    """Yield what people read of a file, line by line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from _page(text)
    elif path.suffix == ".py":
        yield from _python(text)
    else:
        comment = C_COMMENT if path.suffix in (".cc", ".h", ".c") else SHELL_COMMENT
        for number, line in enumerate(text.splitlines(), 1):
            if found := comment.search(line):
                yield Prose(number, found.start(), found[0])


def _page(text: str) -> Iterator[Prose]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield Prose(number, 0, line)


def _python(text: str) -> Iterator[Prose]:
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.start[1], token.string)
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                yield Prose(number, 0, lines[number - 1])


def found_in(path: Path, listed: Sequence[Wording]) -> Iterator[str]:
    """Yield a sentence for each wording that a file has."""
    for part in prose(path):
        text = CODE.sub(lambda code: " " * len(code[0]), part.text)
        for wording in listed:
            for found in wording.pattern.finditer(text):
                at = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                yield f"{at}:{part.line}: {found[0]!r}: {wording.instead}"


def main(words: Sequence[str]) -> int:
    """Check the files, or all that git knows; return 1 if there is anything to say."""
    kinds = ["*.md", "*.py", "*.cc", "*.h", "*.c", "*.sh", "Makefile", "CMakeLists.txt"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", *kinds], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = words or [name for name in listed.stdout.split("\0") if name]
    files = [ROOT / name for name in names if (ROOT / name).is_file()]
    known = wordings()
    found = [line for path in files for line in found_in(path, known)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
