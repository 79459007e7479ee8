"""The tensors that a task sent to other tasks, as the plug-in recorded them."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Observed:
    """The tensors of one edge."""

    edge: str
    tensors: int
    bytes: int
    """Of all its tensors."""


def observed() -> list[Observed]:
    """Return what this process sent over each edge that carries tensors."""
    plugin: Any = importlib.import_module("farwrite.tensorflow")
    return [
        Observed(
            f"{edge['source']} {edge['target']} {edge['tensor']}",
            sum(edge["ways"].values()),
            edge["bytes"],
        )
        for edge in plugin.edges()
        if edge["ways"] and not edge["control"]
    ]
