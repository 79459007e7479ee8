"""Counters: their table, the objects that ``stats()`` returns, and ``/metrics`` over HTTP."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from farwrite.metrics import stats as stats


def __getattr__(name: str) -> ModuleType:
    """Import `farwrite.metrics.stats` at its first use: its classes take longer than the core."""
    if name == "stats":
        return importlib.import_module("farwrite.metrics.stats")
    raise AttributeError(f"module 'farwrite.metrics' has no attribute '{name}'")
