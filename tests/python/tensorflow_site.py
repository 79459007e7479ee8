"""A site-packages with a TensorFlow and farwrite-tensorflow whose libraries are no libraries."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from farwrite.plugin import cache, prebuilt, recipe, wheel

HASHES = {"libtensorflow_cc.so.2": "sha256=cc", "libtensorflow_framework.so.2": "sha256=framework"}


def record_rows(hashes: dict[str, str], size: int = 5) -> str:
    """Return rows of RECORD."""
    return "".join(f"tensorflow/{name},{value},{size}\n" for name, value in hashes.items())


def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a site-packages with TensorFlow 2.21.0 and a plug-in that fits it first in the path."""
    site = tmp_path / "site"
    tensorflow = site / "tensorflow"
    (tensorflow / "include" / "tensorflow").mkdir(parents=True)
    (tensorflow / "__init__.py").write_text("raise ImportError('finding it must not import it')")
    for name in wheel.LIBRARIES:
        (tensorflow / name).write_bytes(b"bytes")
    write_distribution(site, "tensorflow_cpu", record_rows(HASHES))
    package = site / prebuilt.PACKAGE
    package.mkdir()
    (package / "__init__.py").touch()
    (package / cache.LIBRARY).write_bytes(b"a library")
    for name in ("tensorflow", prebuilt.PACKAGE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FARWRITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FARWRITE_CXXFLAGS", raising=False)
    write_facts(site)
    return site


def write_distribution(site: Path, name: str, record: str, version: str = "2.21.0") -> Path:
    """Write what pip writes of a distribution; return the folder of it."""
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    facts = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (folder / "METADATA").write_text(facts)
    (folder / "RECORD").write_text(record)
    return folder


def write_facts(site: Path, **changes: object) -> None:
    """Write what the plug-in says that it was built from."""
    sources = recipe.recipe(wheel.find_wheel()).source_digest
    library = hashlib.sha256((site / prebuilt.PACKAGE / cache.LIBRARY).read_bytes()).hexdigest()
    known = {"2.21.0": {"tensorflow-cpu": HASHES}}
    facts = {"sources": sources, "library": library, "tensorflow": known, **changes}
    (site / prebuilt.PACKAGE / prebuilt.FACTS).write_text(json.dumps(facts))


def misfit() -> str:
    """Return why the plug-in is not used, or nothing."""
    found = prebuilt.find_prebuilt(recipe.recipe(wheel.find_wheel()))
    assert found is not None
    return found.misfit
