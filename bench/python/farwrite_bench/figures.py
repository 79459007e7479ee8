"""The file that ``--json`` names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_json(path: Path | None, facts: dict[str, Any]) -> None:
    """Write `facts` to `path`, and make its folder; None writes nothing."""
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(facts, indent=2) + "\n")
