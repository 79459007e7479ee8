"""The directive `header`: everything that one public header declares, from Doxygen's XML.

Breathe has directives for one class, one function and so on. `header` reads from the XML what the
header declares and writes one of those directives for each name, in the order of the header. So a
page that names every header shows every public name.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
XML = Path(__file__).parents[2] / "out/doxygen/xml"
CLASSES = {"class": "doxygenclass", "struct": "doxygenstruct"}
MEMBERS = {
    "define": "doxygendefine",
    "enum": "doxygenenum",
    "function": "doxygenfunction",
    "typedef": "doxygentypedef",
    "variable": "doxygenvariable",
}


class Header(SphinxDirective):
    """Show the comment at the head of a header, then every name that it declares."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """Write Breathe's directives and let docutils run them."""
        header = self.arguments[0]
        for enumerator in undocumented_enumerators(header):
            LOGGER.warning("%s: %s is not documented", header, enumerator)
        declared = declarations(header)
        lines = [f".. doxygenfile:: {header}", "   :sections: briefdescription detaileddescription"]
        for directive, name in declared:
            lines += ["", f".. {directive}:: {name}"]
            if directive in CLASSES.values():
                lines += ["   :members:", "   :undoc-members:"]
        parent = nodes.container()
        self.state.nested_parse(
            StringList(lines, source=f"farwrite/{header}"), self.content_offset, parent
        )
        return parent.children


def declarations(header: str) -> list[tuple[str, str]]:
    """Return the directive and the name of each declaration of `header`, in its order."""
    found: dict[str, tuple[int, str]] = {}
    members: dict[str, tuple[int, str]] = {}
    for compound in _compounds():
        kind, scope = compound.get("kind"), compound.findtext("compoundname") or ""
        if kind in CLASSES and _line(compound, header) and _is_outer(scope):
            found[scope] = (_line(compound, header), CLASSES[kind])
        elif kind == "namespace" or (kind == "file" and scope == header):
            prefix = f"{scope}::" if kind == "namespace" else ""
            for member in compound.iter("memberdef"):
                directive = MEMBERS.get(member.get("kind") or "")
                is_shown = directive is not None and member.get("prot") == "public"
                if is_shown and _line(member, header):
                    arguments = member.findtext("argsstring") or ""
                    is_function = directive == "doxygenfunction"
                    name = f"{prefix}{member.findtext('name')}" + arguments * is_function
                    members[name] = (_line(member, header), directive)
    # `typedef struct name {...} name` in C: the struct says it all.
    found |= {name: entry for name, entry in members.items() if name not in found}
    return [(directive, name) for name, (_, directive) in sorted(found.items(), key=lambda e: e[1])]


def undocumented_enumerators(header: str) -> list[str]:
    """Return the enumerators without a comment. Doxygen 1.9 warns of all other members alone."""
    return [
        f"{member.findtext('qualifiedname')}::{value.findtext('name')}"
        for compound in _compounds()
        for member in compound.iter("memberdef")
        if _line(member, header)
        for value in member.iter("enumvalue")
        if value.find("briefdescription/para") is None
    ]


@functools.cache
def _compounds() -> list[ElementTree.Element]:
    files = sorted(XML.glob("[cns]*.xml")) + sorted(XML.glob("*_8h.xml"))
    compounds = {}
    for file in files:
        for compound in ElementTree.parse(file).getroot().iter("compounddef"):
            compounds[compound.get("id")] = compound
    return list(compounds.values())


def _line(element: ElementTree.Element, header: str) -> int:
    """Return the line of the declaration, or 0 if it is in another header."""
    location = element.find("location")
    if location is None or location.get("file") != f"farwrite/{header}":
        return 0
    return int(location.get("line") or 0)


def _is_outer(scope: str) -> bool:
    """Whether a class is declared in the namespace itself: Breathe shows inner ones with theirs."""
    return scope.removeprefix("farwrite::").count("::") == 0


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    app.add_directive("header", Header)
    return {"parallel_read_safe": True}
