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

from farwrite.info import version
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
    there = f"the {DISTRIBUTION} in {folder}"
    if not any((folder / name).exists() for name in (LIBRARY, FACTS)):
        return f"{there} has no compiled plug-in, as in a checkout; {_install()}"
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
        known = {one: dict(builds) for one, builds in facts["tensorflow"].items()}
        sources, library = facts["sources"], facts["library"]
        if hashlib.sha256((folder / LIBRARY).read_bytes()).hexdigest() != library:
            raise ValueError(f"{LIBRARY} is not the one that was built")
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"{there} is damaged ({error}); {_install()}"
    if sources != plan.source_digest:
        return f"{there} was built for another Farwrite; {_install()}"
    builds = known.get(plan.wheel.version)
    if builds is None:
        versions = ", ".join(sorted(known))
        return f"{there} is for TensorFlow {versions}, and {plan.wheel.version} is installed"
    if plan.wheel.hashes() in builds.values():
        return ""
    why = plan.wheel.why_unknown() or "its libraries are others"
    return (
        f"{there} is for {' and '.join(sorted(builds))} as on PyPI, and the TensorFlow in"
        f" {plan.wheel.folder} is not known to be one: {why}"
    )


def _install() -> str:
    return (
        "install the wheel of this release: pip install --force-reinstall --no-deps"
        f" {PACKAGE}-{version()}-*.whl"
    )
