"""The files that ``--json``, ``--svg`` and ``--report`` name."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

from farwrite.cli_parser import named_if_unwritable

NOT_REPLACEABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)
"""The error numbers for a folder without write permission, and for a file that is a mount point."""


def write(path: Path, text: str) -> None:
    """Write `text` to `path`; creates the folder if it does not exist.

    A file that exists is replaced as a whole. It keeps its text if this process is killed, or if
    the disk is full. Only where its folder or a mount does not allow that is it written in place.

    Raises
    ------
    FailedPrecondition
        If the file cannot be written.
    """
    with named_if_unwritable(path):
        _write(path, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")
        return
    file = path.resolve()  # a link stays one
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        if file.exists():
            shutil.copymode(file, unfinished)
        unfinished.replace(file)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if not isinstance(error, OSError) or error.errno not in NOT_REPLACEABLE:
            raise
        file.write_text(text, encoding="utf-8")


def write_json(path: Path | None, facts: dict[str, Any]) -> None:
    """Write `facts` to `path`; None writes nothing."""
    if path is not None:
        write(path, json.dumps(facts, indent=2) + "\n")
