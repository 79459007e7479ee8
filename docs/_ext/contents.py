"""The site's table of contents.

Sphinx wants it inside a page. It stands here, so that the pages stay plain Markdown. A page that is
not listed is a warning, and warnings fail the build.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

CONTENTS = {
    "Tutorials": [
        "Overview <overview>",
        "tutorials/first-array",
        "tutorials/tensorflow",
        "tutorials/tensors-between-hosts",
        "tutorials/parameter-box",
    ],
    "How-to guides": [
        "how-to/between-hosts",
        "how-to/rdma",
        "how-to/gpu",
        "how-to/containers",
        "how-to/cluster",
        "how-to/encryption",
        "how-to/parameter-box",
        "how-to/tensorflow",
        "how-to/grpc",
        "how-to/tuning",
        "how-to/observe",
        "how-to/measure",
        "how-to/cpp",
        "how-to/troubleshooting",
    ],
    "Reference": [
        "reference/python",
        "reference/cpp",
        "reference/command-line",
        "reference/options",
        "reference/metrics",
        "reference/tensorflow",
        "reference/tensors",
        "reference/protocol",
        "reference/benchmarks",
    ],
    "Explanation": [
        "explanation/architecture",
        "explanation/contract",
        "explanation/thread-model",
        "explanation/fork",
        "explanation/tensorflow-plugin",
        "explanation/parameter-box",
        "explanation/papers",
        "explanation/experiments",
    ],
    "Development": [
        "development/contributing",
        "development/testing",
        "development/softroce",
        "development/adding-a-fabric",
        "development/dependencies",
        "development/changelog",
    ],
}


def add_contents(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the table of contents to the site's first page."""
    if docname != "index":
        return
    for caption, pages in CONTENTS.items():
        entries = "\n".join(pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True}
