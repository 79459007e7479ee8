"""How Sphinx builds the site from these pages: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import farwrite

project = "Farwrite"
author = "the authors of Farwrite"
project_copyright = author
version = release = farwrite.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "breathe",
    "sphinxarg.ext",
    # In _ext:
    "contents",
    "cpp_headers",
    "page_mentions",
    "repository_links",
    "without_tensorflow",
]
exclude_patterns = ["_ext"]
default_role = "py:obj"  # `Device` in a docstring is a link

myst_heading_anchors = 4
suppress_warnings = ["myst.domains"]  # sphinx-argparse's domain is no target of links

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
maximum_signature_line_length = 90
napoleon_google_docstring = False
napoleon_use_param = False  # types as text: "dtype" is no name to link
napoleon_use_rtype = False

breathe_projects = {"farwrite": "../out/doxygen/xml"}
breathe_default_project = "farwrite"
breathe_domain_by_extension = {"h": "cpp"}

html_theme = "furo"
html_title = f"Farwrite {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
