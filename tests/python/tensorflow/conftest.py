"""What the tests of the plug-in share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from cluster import forker


@pytest.fixture(scope="session", autouse=True)
def process_that_forks() -> Iterator[None]:
    """Before the first test, because it stays when that ends."""
    with contextlib.closing(forker()):
        yield
