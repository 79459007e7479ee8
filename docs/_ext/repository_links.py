"""Links from pages to files of the repository that are no pages of the site.

A page links to `../../examples/alias.py`. The site has no repository beside it, so the link on the
site leads to a page that shows the file. A link to a folder leads to a list of its files.

README.md and a few other Markdown files outside docs/ are also pages of the site. Each build makes
symbolic links to them, which git ignores. The links on those pages start where the file is.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from docutils import nodes
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "overview": "README.md",
    "development/contributing": "CONTRIBUTING.md",
    "development/softroce": "tests/softroce/README.md",
    "development/changelog": "CHANGELOG.md",
}
"""The site's pages of files outside docs/."""
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)[^)\s]+(?=\))")


def link_pages(folder: Path) -> None:
    """Make the symbolic links of PAGES in the folder of the pages."""
    for name, source in PAGES.items():
        page = folder / f"{name}.md"
        if not page.is_symlink():
            page.symlink_to(os.path.relpath(ROOT / source, page.parent))


def rebase_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make the links of a page that is a symbolic link start at its folder in docs/."""
    page = Path(app.srcdir, f"{docname}.md")
    if not page.is_symlink():
        return
    origin = page.resolve().parent

    def rebase(link: re.Match[str]) -> str:
        return os.path.relpath(origin / link[0], page.parent)

    source[0] = LINK.sub(rebase, source[0])


class RepositoryLinks(SphinxTransform):
    """Point links at pages that show files, and remember which files are shown."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Replace each link of this document that leads out of docs/."""
        for kind in (addnodes.pending_xref, addnodes.download_reference):
            for link in list(self.document.findall(kind)):
                if link.get("reftype") == "myst":
                    self._replace(link)

    def _replace(self, link: nodes.Element) -> None:
        path, _, anchor = unquote(link["reftarget"]).partition("#")
        if link.get("refdomain") == "doc":
            target = Path(self.env.srcdir, f"{path}.md")
            anchor = link.get("reftargetid") or ""
        else:
            target = Path(self.env.relfn2path(path, self.env.docname)[1])
        if not target.is_relative_to(ROOT) or not target.exists():
            return  # Sphinx warns of it
        page = page_of(self.env, target)
        if page == link["reftarget"]:
            return
        if page is not None:
            link.replace_self(
                addnodes.pending_xref(
                    "",
                    *link.children,
                    refdomain="doc",
                    reftype="myst",
                    reftarget=page,
                    reftargetid=anchor or None,
                    refdoc=self.env.docname,
                    refexplicit=True,
                )
            )
            return
        shown: set[Path] = self.app.repository_files  # type: ignore[attr-defined]
        shown.add(target)
        uri = self.app.builder.get_relative_uri(self.env.docname, page_name(target))
        link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=uri))


def page_of(env: BuildEnvironment, target: Path) -> str | None:
    """Return the page of the site that `target` is the source of."""
    for page in env.found_docs:
        if Path(env.doc2path(page)).resolve() == target:
            return page
    return None


def page_name(target: Path) -> str:
    """Return the name of the page that shows `target`."""
    return f"repository/{target.relative_to(ROOT)}"


def file_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Make a page of each file and folder that a page links to."""
    shown: set[Path] = app.repository_files  # type: ignore[attr-defined]
    waiting = sorted(shown)
    while waiting:
        target = waiting.pop()
        if target.is_dir():
            entries = _entries(target)
            body = _folder(app, target, entries)
            new = set(entries) - shown
            shown |= new
            waiting += sorted(new)
        else:
            body = _file(app, target)
        name = page_name(target)
        title = str(target.relative_to(ROOT))
        yield name, {"title": title, "body": f"<h1>{escape(title)}</h1>\n{body}"}, "page.html"


def one_tree_for_each_depth(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None
) -> None:
    """Make the navigation of pages that show files once for each depth: it differs in `../`."""
    if not page.startswith("repository/"):
        return
    trees: dict[tuple[Any, ...], str] = app.repository_trees  # type: ignore[attr-defined]
    make = context["toctree"]

    def toctree(**options: Any) -> str:
        key = (page.count("/"), *sorted(options.items()))
        if key not in trees:
            trees[key] = make(**options)
        return trees[key]

    context["toctree"] = toctree


def _entries(folder: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "."],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return sorted({folder / name.partition("/")[0] for name in listed.stdout.splitlines()})


def _folder(app: Sphinx, folder: Path, entries: list[Path]) -> str:
    items = []
    for entry in entries:
        uri = app.builder.get_relative_uri(page_name(folder), page_name(entry))
        name = entry.name + "/" * entry.is_dir()
        items.append(f'<li><a href="{escape(uri)}">{escape(name)}</a></li>')
    return "<ul>\n" + "\n".join(items) + "\n</ul>"


def _file(app: Sphinx, path: Path) -> str:
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return f"<p>{path.stat().st_size} bytes that are no text.</p>"
    try:
        lexer = get_lexer_for_filename(path.name).aliases[0]
    except ClassNotFound:
        lexer = TextLexer.aliases[0]
    return app.builder.highlighter.highlight_block(text, lexer, linenos=False)  # type: ignore[attr-defined,no-any-return]


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    link_pages(Path(app.srcdir))
    app.repository_files = set()  # type: ignore[attr-defined]
    app.connect("source-read", rebase_links)
    app.add_transform(RepositoryLinks)
    app.connect("html-collect-pages", file_pages)
    app.repository_trees = {}  # type: ignore[attr-defined]
    app.connect("html-page-context", one_tree_for_each_depth, priority=400)  # before the theme's
    return {"parallel_read_safe": False, "parallel_write_safe": True}
