"""What is installed in this Python: versions and entry points, read from its folders.

`importlib.metadata` answers the same questions, but its import and its search take longer than all
else that ``farwrite --help`` does.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_SUFFIXES = (".dist-info", ".egg-info")


class Distribution(NamedTuple):
    """An installed package, as pip knows it."""

    folder: str
    """The folder of its metadata."""

    @property
    def name(self) -> str:
        """The name, as its authors write it."""
        return self._header("Name")

    @property
    def version(self) -> str:
        """The version; empty if the package names none."""
        return self._header("Version")

    @property
    def key(self) -> str:
        """The name from the name of the folder, in lower case and with hyphens."""
        return os.path.basename(self.folder).partition("-")[0].lower().replace("_", "-")

    def text(self, name: str) -> str:
        """Return the content of a file of the metadata; nothing if it does not exist."""
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return ""

    def _header(self, name: str) -> str:
        for line in (self.text("METADATA") or self.text("PKG-INFO")).splitlines():
            key, _, value = line.partition(":")
            if not line or key.lower() == name.lower():  # an empty line ends the headers
                return value.strip()
        return ""


class EntryPoint(NamedTuple):
    """A name that a package gives to one of its modules, or to an object of it."""

    name: str
    value: str
    """``module`` or ``module:object``."""
    dist: Distribution

    def load(self) -> Any:
        """Import the module, and return it or its object."""
        module, _, path = self.value.partition(":")
        found: Any = importlib.import_module(module.strip())
        for attribute in filter(None, path.strip().split(".")):
            found = getattr(found, attribute)
        return found


def distributions(path: Sequence[str] | None = None) -> Iterator[Distribution]:
    """Yield what is installed in the folders of `path`, by default those of `sys.path`.

    Of packages of one name, Python imports the first.
    """
    seen = set()
    for folder in sys.path if path is None else path:
        try:
            names = sorted(os.listdir(folder or "."))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        for name in names:
            if name.endswith(_SUFFIXES):
                found = Distribution(os.path.join(folder, name))
                if found.key not in seen:
                    seen.add(found.key)
                    yield found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of `group` that the installed packages have."""
    found = []
    for distribution in distributions():
        section = ""
        for line in map(str.strip, distribution.text("entry_points.txt").splitlines()):
            if line.startswith("["):
                section = line.strip("[] ")
            elif section == group and "=" in line and not line.startswith(("#", ";")):
                name, _, value = line.partition("=")
                value = value.partition("[")[0]  # extras, which older packages name
                found.append(EntryPoint(name.strip(), value.strip(), distribution))
    return found


def version(name: str) -> str | None:
    """Return the version of the package `name`, or None if it is not installed."""
    return next((each.version for each in distributions() if each.key == name), None)
