"""The relative links of the pages lead to files of the repository, and anchors to headings."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from pages import PAGES, ROOT, name_of, prose_of

pytestmark = pytest.mark.checkout

_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$")


def test_every_link_of_a_page_resolves() -> None:
    broken = []
    for page in PAGES:
        for number, link in links_of(page):
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.is_relative_to(ROOT) or not target.exists():
                broken.append(f"{name_of(page)}:{number}: {link}: no such file")
            elif anchor and anchor not in anchors_of(target):
                broken.append(f"{name_of(page)}:{number}: {link}: no such heading")
    assert not broken


def test_the_index_lists_every_page() -> None:
    index = ROOT / "docs/index.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for _, link in links_of(index)}
    pages = {page for page in PAGES if page.is_relative_to(index.parent)} - {index}
    assert {name_of(page) for page in pages - listed} == set()


def test_a_page_that_is_a_symbolic_link_is_not_in_the_repository() -> None:
    # A code host shows its text, with links that start at the wrong folder.
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    links = [name_of(page) for page in ROOT.glob("docs/**/*.md") if page.is_symlink()]
    assert [link for link in links if f"/{link}" not in ignored] == []


def test_a_tutorial_links_each_word_of_the_glossary_at_its_first_use() -> None:
    missing = [
        f"{name_of(tutorial)}:{number}: {word}: no link to {' or '.join(sorted(targets))}"
        for tutorial in PAGES
        if tutorial.parent.name == "tutorials"
        for word, targets in glossary().items()
        for number, link in first_use(word, tutorial)
        if link not in targets
    ]
    assert not missing


EVERYDAY = {"change", "message", "read", "write"}
"""Words of the glossary whose meaning there is the usual one, or which also have another one."""


def glossary() -> dict[str, set[str]]:
    """The words of the glossary in small letters, with the links to the sections they are in."""
    page = ROOT / "docs/explanation/architecture.md"
    text = page.read_text(encoding="utf-8").partition("\n## Words\n")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for section in text.split("\n### ")[1:]:
        anchor = section.partition("\n")[0].lower().replace(" ", "-")
        for cell in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)[1:]:
            for word in re.sub(r"\(.*?\)|`", "", cell).split(","):
                link = f"../explanation/architecture.md#{anchor}"
                found.setdefault(word.strip().lower(), set()).add(link)
    return {word: links for word, links in found.items() if word not in EVERYDAY}


def first_use(word: str, page: Path) -> list[tuple[int, str]]:
    """The line where a page first uses a word in a sentence, and the link that the word is in."""
    used = re.compile(rf"(?i)\b{re.escape(word)}(s|es|d|ed)?\b")
    for number, line in prose_of(page):
        if line == "## Where to go next":
            break
        text = _CODE.sub(lambda code: " " * len(code[0]), line)
        match = None if line.startswith("#") else used.search(text)
        if match:
            links = re.finditer(r"\[[^\]]*\]\(([^)]*)\)", text)
            around = [link[1] for link in links if link.start() < match.start() < link.end()]
            return [(number, "".join(around))]
    return []


def test_the_first_use_of_a_word_is_found_outside_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Slots\n`slot` is code\n[**slots**](a.md#b) hold a tensor\n")
    assert first_use("slot", page) == [(3, "a.md#b")]
    assert first_use("edge", page) == []


def links_of(page: Path) -> list[tuple[int, str]]:
    """The links of a page that lead into the repository, with their lines."""
    return [
        (number, link)
        for number, line in prose_of(page)
        for link in _LINK.findall(_CODE.sub("code", line))
        if not re.match(r"[a-z]+:", link)
    ]


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as repository pages and the site make them."""
    if page.suffix != ".md":
        return set()
    seen: Counter[str] = Counter()
    anchors = set()
    for _, line in prose_of(page):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return anchors


def test_an_anchor_is_made_as_repository_pages_make_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Bench `p2p`, and [more](x.md)\n## Again\n```text\n# no\n```\n## Again\n")
    assert anchors_of(page) == {"bench-p2p-and-more", "again", "again-1"}


def test_code_holds_no_links(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("`[a](b)` [c](d.md#e) [f](https://g)\n```text\n[h](i)\n```\n")
    assert links_of(page) == [(1, "d.md#e")]
