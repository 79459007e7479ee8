"""The files that ``--json``, ``--svg`` and ``--report`` name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write(path: Path, text: str) -> None:
    """Write `text` to `path`; creates the folder if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_json(path: Path | None, facts: dict[str, Any]) -> None:
    """Write `facts` to `path`; None writes nothing."""
    if path is not None:
        write(path, json.dumps(facts, indent=2) + "\n")
