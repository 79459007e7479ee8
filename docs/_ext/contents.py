"""The site's table of contents: the pages that each section of docs/index.md links to.

Sphinx wants a table of contents in a page. It is made here, so that the pages stay plain Markdown
and are listed once. A page that the index does not link to is a warning, and warnings fail the
build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from repository_links import LINK, page_of
from sphinx.application import Sphinx

SECTION = re.compile(r"^## ([^:\n]*).*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the table of contents to the site's first page."""
    if docname != "index":
        return
    for caption, text in SECTION.findall(source[0]):
        targets = (Path(app.srcdir, link).resolve() for link in LINK.findall(text))
        pages = dict.fromkeys(page_of(app.env, target) for target in targets)
        entries = "\n".join(page for page in pages if page)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True}
