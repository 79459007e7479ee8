"""Fails if types in two folders of `src/` have one name, and no namespace says which is which.

A reader who searches for the name of a type must find one type. So a name may be in two folders
only where it is that of a member of two named namespaces: `tcp::LaneSender`, `verbs::LaneSender`.
A type inside a class, a function or an unnamed namespace is read without that prefix.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

ALLOWED: Mapping[str, str] = {
    "Kind": "read with its owner: Work::Kind, Transfer::Kind",
    "State": "read with its owner: Route::State; of some classes, EventLoop's, the hidden half",
}
"""Name: why it may be the name of several types."""

IGNORED = re.compile(
    r"//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*"
    r'|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
    re.DOTALL | re.MULTILINE,
)
NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)$")
TYPE = re.compile(
    r"(?:^|[\s:>])(?:class|struct|union|enum(?: class| struct)?)\s+"
    r"(?:(?:alignas\s*\([^)]*\)|\[\[[^]]*\]\]|[A-Z]+_[A-Z_]+(?:\([^)]*\))?)\s+)*"
    r"([\w:]+)(?:\s+final)?\s*(?::[^:(].*)?$"
)


class Definition(NamedTuple):
    """A type that a file defines."""

    name: str
    line: int
    namespace: str | None
    """Of a type that is a member of a named namespace."""


def definitions(text: str) -> Iterator[Definition]:
    """Yield the classes, structs, unions and enumerations that a C++ source defines."""
    text = IGNORED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    scopes: list[str | None] = []  # of each open brace the namespace, if it opens one
    head = ""
    for token in re.finditer(r"[{};]|[^{};]+", text):
        if token[0] == "{":
            head = " ".join(head.split())
            while (plain := re.sub(r"<[^<>]*>", "", head)) != head:
                head = plain
            opened = None
            if found := NAMESPACE.search(head):
                opened = found[1] or None
            elif found := TYPE.search(head):
                outer = "::".join(filter(None, scopes)) if None not in scopes else None
                *owner, name = found[1].split("::")
                line = text.count("\n", 0, token.start()) + 1
                yield Definition(name, line, None if owner else outer)
            scopes.append(opened)
        elif token[0] == "}" and scopes:
            scopes.pop()
        head = "" if token[0] in "{};" else token[0]


def faults(files: Mapping[str, str], allowed: Mapping[str, str] = ALLOWED) -> list[str]:
    """Return a line for each name of types in several folders; `files`: text by path."""
    found = defaultdict(list)
    for path, text in files.items():
        for each in definitions(text):
            found[each.name].append((path, each))
    shared = {name for name, there in found.items() if _collide(there)}
    return [
        *(
            f"{', '.join(f'{path}:{each.line}' for path, each in found[name])}: these are types of"
            f" the one name {name}; name each by what it is (tools/check_names.py)"
            for name in sorted(shared - {*allowed})
        ),
        *(
            f"{name} is the name of types of one folder now: take it out of ALLOWED in"
            " tools/check_names.py"
            for name in sorted({*allowed} - shared)
        ),
    ]


def _collide(there: list[tuple[str, Definition]]) -> bool:
    folders = {PurePosixPath(path).parent for path, _ in there}
    namespaces = {(each.namespace, PurePosixPath(path).parent) for path, each in there}
    named = [namespace for namespace, _ in namespaces]
    return len(folders) > 1 and (None in named or len({*named}) < len(named))


def main() -> int:
    """Print each fault; return the exit status."""
    sources = sorted([*(ROOT / "src").rglob("*.h"), *(ROOT / "src").rglob("*.cc")])
    found = faults({str(path.relative_to(ROOT)): path.read_text() for path in sources})
    print(*found, sep="\n", end="\n" if found else "")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
