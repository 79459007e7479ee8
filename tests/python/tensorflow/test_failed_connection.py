"""Connections that fail: TensorFlow makes a server for each, and ends it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster import FARWRITE, STOCK, cluster
from faults import balanced

from processes import wait_until


@pytest.mark.parametrize("protocol", [pytest.param(STOCK, marks=pytest.mark.slow), FARWRITE])
def test_a_client_that_cannot_connect_goes_on_with_what_it_has(
    tmp_path: Path, protocol: str
) -> None:
    with cluster(tmp_path, {"worker": 1}, protocol) as made:
        assert made.run("failed_connection.py") == {
            "attempts": ["UnavailableError", "UnavailableError", "connected", "UnavailableError"],
            "values": [42.0, 42.0],
        }
        if protocol == FARWRITE:
            wait_until(lambda: balanced(made.tasks["worker0"].stats()))
