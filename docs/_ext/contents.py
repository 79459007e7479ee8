"""The site's table of contents.

Sphinx wants it inside a page. It stands here, so that the pages stay plain Markdown. A page that is
not listed is a warning, and warnings fail the build.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

CONTENTS = {
    "Tutorials": ("tutorials", ["first-array", "tensorflow", "tensors-between-hosts"]),
    "How-to guides": (
        "how-to",
        [
            "between-hosts",
            "rdma",
            "containers",
            "encryption",
            "tensorflow",
            "tuning",
            "observe",
            "measure",
            "cpp",
            "troubleshooting",
        ],
    ),
    "Reference": (
        "reference",
        [
            "python",
            "cpp",
            "command-line",
            "options",
            "metrics",
            "tensorflow",
            "tensors",
            "protocol",
            "benchmarks",
        ],
    ),
    "Explanation": (
        "explanation",
        [
            "architecture",
            "contract",
            "thread-model",
            "fork",
            "tensorflow-plugin",
            "papers",
        ],
    ),
    "Development": (
        "development",
        [
            "contributing",
            "testing",
            "softroce",
            "adding-a-fabric",
            "dependencies",
            "changelog",
        ],
    ),
}


def add_contents(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the table of contents to the site's first page."""
    if docname != "index":
        return
    for caption, (folder, pages) in CONTENTS.items():
        entries = "\n".join(f"{folder}/{page}" for page in pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True}
