"""The contract's table of borrowed memory names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.checkout

ROOT = Path(__file__).parents[2]


def test_every_named_test_exists() -> None:
    page = (ROOT / "docs/explanation/contract.md").read_text()
    section = page.split("### Memory of other allocators")[1].split("\n###")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    sources = [p for p in (ROOT / "tests").rglob("*") if p.suffix in (".py", ".cc")]
    text = "\n".join(path.read_text() for path in sources)
    files = {path.name for path in sources}
    for row in rows:
        names = re.findall(r"`([^`]+)`", row.rstrip("| ").rsplit("|", 1)[1])
        assert names, row
        for name in names:
            fixture, _, test = name.rpartition(".")
            is_test = f"def {name}(" in text or f"({fixture}, {test})" in text
            assert is_test or name in files or (ROOT / name).is_dir(), name
