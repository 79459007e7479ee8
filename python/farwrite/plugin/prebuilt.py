"""Finds the plug-in that the distribution farwrite-tensorflow brings compiled.

It fits one version of Farwrite and the TensorFlows whose libraries it was built for. For others
the plug-in is compiled.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from farwrite.plugin.cache import LIBRARY
from farwrite.plugin.recipe import Recipe

DISTRIBUTION = "farwrite-tensorflow"
PACKAGE = "farwrite_tensorflow"
FACTS = "prebuilt.json"
"""What the plug-in was built from: the hash `sources`, that of the `library` itself, and in
`tensorflow`, by version and distribution, those of TensorFlow's libraries."""


class Prebuilt(NamedTuple):
    """An installed plug-in that was compiled elsewhere."""

    library: Path
    misfit: str
    """Why it is not for the TensorFlow and the Farwrite that are installed; empty if it is."""


def find_prebuilt(plan: Recipe) -> Prebuilt | None:
    """Return the plug-in of farwrite-tensorflow, or None where that is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return Prebuilt(folder / LIBRARY, _misfit(folder, plan))


def _misfit(folder: Path, plan: Recipe) -> str:
    if os.environ.get("FARWRITE_CXXFLAGS"):
        return f"FARWRITE_CXXFLAGS is set, so the plug-in of {DISTRIBUTION} is not used"
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
        sources, known = facts["sources"], dict(facts["tensorflow"])
        if hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() != facts["library"]:
            raise ValueError(f"{LIBRARY} is not the one that was built")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"the {DISTRIBUTION} in {folder} is damaged ({error}); install it again"
    if sources != plan.source_digest:
        return (
            f"the {DISTRIBUTION} in {folder} was built for another Farwrite; install the one of the"
            " same release"
        )
    builds = known.get(plan.wheel.version)
    if builds is None:
        return (
            f"the {DISTRIBUTION} in {folder} is for TensorFlow {', '.join(sorted(known))}, and"
            f" {plan.wheel.version} is installed"
        )
    if plan.wheel.hashes() not in builds.values():
        return (
            f"the {DISTRIBUTION} in {folder} is for {' and '.join(sorted(builds))} as on PyPI, and"
            f" the libraries in {plan.wheel.folder} are others"
        )
    return ""
