"""What the tests of the plug-in share."""

from __future__ import annotations

import pytest
from cluster import forker


@pytest.fixture(scope="session", autouse=True)
def process_that_forks() -> None:
    """Before the first test, because it stays when that ends."""
    forker()
