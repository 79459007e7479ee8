"""Reads RECORD, in which pip, uv and others list the files of an installed distribution."""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Collection
from importlib.metadata import Distribution
from typing import NamedTuple


class Recorded(NamedTuple):
    """What RECORD says of a file. Each is empty where RECORD leaves it out."""

    digest: str
    """The algorithm and the hash, as in "sha256=8GCzI7Ju"."""
    size: str


def read_record(distribution: Distribution, paths: Collection[str]) -> dict[str, Recorded]:
    """Return what RECORD says of these paths, which begin in site-packages.

    A path that RECORD does not list is left out. All are, where there is no RECORD, as in Debian's
    packages, and where RECORD is damaged, since none of its hashes can be trusted then.
    """
    try:
        text = distribution.read_text("RECORD") or ""
        # Not splitlines(): a quoted path may contain a line break, and others are no end of a row.
        rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except (OSError, UnicodeError, csv.Error):
        return {}
    found = {}
    ends = tuple(posixpath.basename(path) for path in paths)
    for row in rows:
        if row and row[0].endswith(ends) and (path := posixpath.normpath(row[0])) in paths:
            digest, size = (*row[1:], "", "")[:2]
            found[path] = Recorded(digest, size)
    return found
