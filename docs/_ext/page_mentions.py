"""Links for the pages that docstrings, help texts and C++ comments mention.

They name a page by its path, `docs/explanation/fork.md`, because people read them in a terminal or
an editor. On the site the path becomes a link with the page's title.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

MENTION = re.compile(r"docs/([\w/-]+)\.md")


class PageMentions(SphinxTransform):
    """Replace each path of a page in running text; a path that is no page is a warning."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Replace the mentions in this document."""
        for text in list(self.document.findall(nodes.Text)):
            if MENTION.search(text) and not _is_code_or_link(text):
                text.parent.replace(text, self._with_links(text))

    def _with_links(self, text: nodes.Text) -> list[nodes.Node]:
        parts: list[nodes.Node] = []
        end = 0
        for mention in MENTION.finditer(text):
            parts.append(nodes.Text(text[end : mention.start()]))
            link = addnodes.pending_xref(
                "",
                nodes.inline("", mention[0]),
                refdomain="std",
                reftype="doc",
                reftarget=f"/{mention[1]}",
                refdoc=self.env.docname,
                refexplicit=False,
                refwarn=True,
            )
            parts.append(link)
            end = mention.end()
        return [*parts, nodes.Text(text[end:])]


def _is_code_or_link(text: nodes.Text) -> bool:
    skipped = (nodes.literal, nodes.literal_block, nodes.reference, addnodes.pending_xref)
    node: nodes.Node | None = text.parent
    while node is not None:
        if isinstance(node, (*skipped, addnodes.download_reference)):
            return True
        node = node.parent
    return False


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the transform."""
    app.add_transform(PageMentions)
    return {"parallel_read_safe": True}
