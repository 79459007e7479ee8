"""The relative links of the pages lead to files of the repository, and anchors to headings."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from pages import PAGES, ROOT, name_of, prose_of

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
