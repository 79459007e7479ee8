"""Where benchmarks keep what takes long to make: in Farwrite's folder of the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the folder; it may not exist yet. The variable FARWRITE_CACHE names another one."""
    named = os.environ.get("FARWRITE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(named) if named else Path(base) / "farwrite"
