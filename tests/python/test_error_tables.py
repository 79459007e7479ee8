"""Messages: the pages quote their fixed parts, and their words are those of the pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[2]
HEADER = "| message | cause | what to do |"
PAGES = sorted(page for page in ROOT.glob("docs/**/*.md") if HEADER in page.read_text())


def _sources() -> str:
    """All C++ and Python code as one line, with neighbouring string literals joined."""
    patterns = ("include/**/*.h", "src/**/*.cc", "src/**/*.h", "python/**/*.py")
    files = [path for pattern in patterns for path in ROOT.glob(pattern)]
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


INTERNAL = re.compile(
    r"\b(arenas?|landing|regions?|mailbox|doorbells?|(static|bounded|dynamic) edge)\b|\w::\w"
)
"""Words of the code. A message says memory, an array, or the option that sets the limit."""

FOLDERS = ("core", "memory", "fabric", "device", "transfer", "box", "stream", "python", "gpu")
NO_MESSAGES = {"core/lock_rank.cc", "core/counter_table.cc", "python/region.cc"}


def _texts_of_cpp(path: Path) -> Iterator[str]:
    code = re.sub(r"//[^\n]*|#include[^\n]*", "", path.read_text())
    joined = re.sub(r'(?<!\\)"\s*\n\s*"', "", code)
    for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined):
        if " " in text and "%p" not in text:  # %p: the last words of a program that ends here
            yield text


def _texts_of_python(path: Path) -> Iterator[str]:
    for raised in ast.walk(ast.parse(path.read_text())):
        if isinstance(raised, ast.Raise):
            for node in ast.walk(raised):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_a_message_has_no_words_of_the_code() -> None:
    texts = {
        str(path.relative_to(ROOT)): list(_texts_of_python(path))
        for path in (ROOT / "python/farwrite").rglob("*.py")
    }
    for folder in FOLDERS:
        for path in (ROOT / "src" / folder).rglob("*.cc"):
            name = path.relative_to(ROOT / "src").as_posix()
            if name not in NO_MESSAGES:
                texts[name] = list(_texts_of_cpp(path))
    assert sum(map(len, texts.values())) > 500
    found = {
        path: [text for text in all_of if INTERNAL.search(text)] for path, all_of in texts.items()
    }
    assert {path: words for path, words in found.items() if words} == {}
