"""Checks a page that a command writes: it needs no other file, and fits both colour schemes."""

from __future__ import annotations

from html.parser import HTMLParser


class _Links(HTMLParser):
    """Collects the tags of a page, and the links that lead out of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        links = [str(value) for name, value in attrs if name in ("src", "href")]
        self.found += [link for link in links if not link.startswith("#")]


def check_page(html: str, *tags: str) -> None:
    """Check that the page has these tags, and neither a link nor a script."""
    page = _Links()
    page.feed(html)
    assert page.found == []
    assert set(tags) <= page.tags
    assert "script" not in page.tags
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
