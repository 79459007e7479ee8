"""Continues an interrupted run from what its file has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from farwrite_experiments.train.resume import earlier_facts

MEASURED = ("training", "emulated_steps")
"""The keys of the file from which rows are made: the runs, and the rows of the emulated steps."""


def interrupted(
    path: Path | None, settings: Mapping[str, Any], machine: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the facts of an interrupted run with the same settings on the same machine.

    None if there is no file, or the file is of a run that has finished: then a new run replaces it.

    Raises
    ------
    FailedPrecondition
        If the file is of another interrupted run, or cannot be read.
    """
    if path is None or not path.exists() or _has_finished(path):
        return None
    return earlier_facts("convergence", path, settings, machine, ("notes", *MEASURED))


def _has_finished(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["finished"])
    except (ValueError, KeyError, TypeError):
        return False
